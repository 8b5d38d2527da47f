"""Stock performance: a processor with a state store and a punctuator.

Every trade updates the statistics of its share: the last price, the mean of the last twenty prices. Every ten seconds of
stream time the shares that have moved more than two percent away from their mean are written to ``stock-performance``.

With a broker (``penstock dev``) and the topics ``trades`` and ``stock-performance``::

    penstock run examples/stock_performance.py:app
    penstock produce trades        # a JSON value such as {"price": 101.5}, with the symbol as the key
"""

from datetime import timedelta
from typing import Any, TypedDict

from penstock import App, Processor, ProcessorContext, PunctuationType, Record, Stores, StreamsBuilder

PRICES = 20
MOVED = 0.02
EVERY = timedelta(seconds=10)


class Trade(TypedDict):
    """A trade of one share."""

    price: float


class Performance(TypedDict):
    """What is known of one share."""

    prices: list[float]
    mean: float
    change: float


def performance(prices: list[float]) -> Performance:
    """Compute the statistics of the last prices, the newest at the end."""
    mean = sum(prices) / len(prices)
    return {"prices": prices, "mean": mean, "change": prices[-1] / mean - 1}


class StockPerformance(Processor[str, Trade]):
    """Keeps the last prices of each share, and reports those that move."""

    def init(self, context: ProcessorContext) -> None:
        """Fetch the store and schedule the report; each shard reports its own shares."""
        super().init(context)
        self.shares: Any = context.store("shares")
        context.schedule(EVERY, PunctuationType.STREAM_TIME, self.report, start=0)

    def process(self, record: Record[str, Trade]) -> None:
        """Add a price. What must outlive the epoch is in the store, not in a field."""
        before = self.shares.get(record.key)
        prices = [*(before["prices"] if before else []), record.value["price"]][-PRICES:]
        self.shares.put(record.key, performance(prices))

    def report(self, timestamp: int) -> None:
        """Forward the shares that have moved."""
        for symbol, share in self.shares.all():
            if abs(share["change"]) > MOVED:
                row = {
                    "price": share["prices"][-1],
                    "mean": round(share["mean"], 2),
                    "change": round(share["change"], 4),
                }
                self.context.forward(Record(symbol, row, timestamp))


builder = StreamsBuilder()
builder.stream("trades").process(StockPerformance, stores=[Stores.key_value("shares")]).to("stock-performance")

app = App(builder, application_id="stock-performance")

if __name__ == "__main__":
    app.run()
