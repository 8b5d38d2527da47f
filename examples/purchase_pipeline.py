"""The purchase pipeline of a chain of shops: masking, patterns, rewards, and branches by department.

Every purchase comes with the number of a credit card. The first node masks it, and everything else sees masked
purchases only:

- ``patterns``: item, postal code and price, for those who look for trends;
- ``rewards``: points of each customer, which add up in a store;
- ``purchases-kept``: purchases above 5.00, under the time of the purchase as their key;
- ``coffee`` and ``electronics``: a topic for each of these departments; the others have none;
- what one employee has entered is handed to ``report``, for an enquiry.

With a broker (``penstock dev``)::

    penstock run examples/purchase_pipeline.py:app
"""

import logging
from typing import TypedDict

from penstock import App, FixedKeyProcessor, FixedKeyProcessorContext, FixedKeyRecord, Stores, StreamsBuilder

LEAST_KEPT = 500
WATCHED = "000000"

logger = logging.getLogger("enquiry")


class Purchase(TypedDict):
    """One item that was bought."""

    card: str
    customer: str
    employee: str
    department: str
    item: str
    postal_code: str
    quantity: int
    cents: int
    time: int


class Pattern(TypedDict):
    """What was bought where, without who."""

    item: str
    postal_code: str
    cents: int


class Reward(TypedDict):
    """What a purchase is worth to a customer, and all purchases so far."""

    customer: str
    points: int
    total: int


def masked(purchase: Purchase) -> Purchase:
    """Leave the last four digits of the card."""
    return {**purchase, "card": f"xxxx-xxxx-xxxx-{purchase['card'][-4:]}"}


def pattern(purchase: Purchase) -> Pattern:
    """Return what is of interest for trends."""
    return {
        "item": purchase["item"],
        "postal_code": purchase["postal_code"],
        "cents": purchase["quantity"] * purchase["cents"],
    }


class Rewards(FixedKeyProcessor[str, Purchase]):
    """A point for each unit of money; the total of each customer is in a store."""

    def init(self, context: FixedKeyProcessorContext) -> None:
        """Fetch the store."""
        super().init(context)
        self.totals = context.store("points")

    def process(self, record: FixedKeyRecord[str, Purchase]) -> None:
        """Add the points of a purchase; the key is the customer, so all of theirs meet here."""
        points = record.value["quantity"] * record.value["cents"] // 100
        total = self.totals.merge(record.key, points, int.__add__)
        reward: Reward = {"customer": record.key, "points": points, "total": total}
        self.context.forward(record.with_value(reward))


def report(key: str, purchase: Purchase) -> None:
    """Do something outside of Kafka. An epoch that is run again does it again: it must bear that."""
    logger.warning("employee %s has sold %s to %s", purchase["employee"], purchase["item"], purchase["customer"])


builder = StreamsBuilder()
purchases = builder.stream("purchases").map_values(masked, name="masked")

purchases.map_values(pattern, name="pattern").to("patterns")

(
    purchases.select_key(lambda _, purchase: purchase["customer"], name="by-customer")
    .repartition(name="customers")
    .process_values(Rewards, stores=[Stores.key_value("points")], name="points-of-customer")
    .to("rewards")
)

(
    purchases.filter(lambda _, purchase: purchase["quantity"] * purchase["cents"] > LEAST_KEPT, name="large-enough")
    .select_key(lambda _, purchase: str(purchase["time"]), name="by-time")
    .to("purchases-kept")
)

departments = (
    purchases.split(name="department-")
    .branch(lambda _, purchase: purchase["department"] == "coffee", name="coffee")
    .branch(lambda _, purchase: purchase["department"] == "electronics", name="electronics")
    .no_default()
)
departments["department-coffee"].to("coffee")
departments["department-electronics"].to("electronics")

purchases.filter(lambda _, purchase: purchase["employee"] == WATCHED, name="watched").foreach(report, name="report")

app = App(builder, application_id="purchase-pipeline")

if __name__ == "__main__":
    app.run()
