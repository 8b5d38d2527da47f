"""A program as mypy --strict sees it: types of keys and values go through every operator. Checked with the sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from penstock import (
    Buffer,
    EmitStrategy,
    FixedKeyProcessor,
    FixedKeyRecord,
    GlobalKTable,
    JoinWindows,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Serde,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    Windowed,
)
from penstock.testing import TopologyTestDriver


@dataclass
class Order:
    """What is ordered."""

    user: str
    amount: int


@dataclass
class User:
    """Who orders."""

    name: str


orders_serde: Serde[Order] = Serdes.json_of(Order)


class Remember(Processor[str, Order]):
    """Forwards the amount of the order before."""

    def init(self, context: ProcessorContext) -> None:
        """Keep the context, ask for a call now and then."""
        self.context = context
        self.last = context.store("last")
        context.schedule(1000, PunctuationType.STREAM_TIME, self.tick)

    def process(self, record: Record[str, Order]) -> None:
        """Forward what was there before."""
        before = self.last.get(record.key)
        self.last.put(record.key, record.value.amount)
        self.context.forward(record.with_value(before or 0))

    def tick(self, now: int) -> None:
        """Forward the time."""
        self.context.forward(Record("tick", now, now))


class Double(FixedKeyProcessor[str, int]):
    """Forwards twice the value."""

    def process(self, record: FixedKeyRecord[str, int]) -> None:
        """Forward twice the value."""
        self.context.forward(record.with_value(record.value * 2))


def total(key: str, order: Order, sum_so_far: int) -> int:
    """Add up."""
    return sum_so_far + order.amount


def describe(order: Order, user: User | None) -> str:
    """Say who orders what."""
    return f"{order.amount} for {user.name if user else 'nobody'}"


def program() -> Topology:
    """Use every family of operators."""
    builder = StreamsBuilder()
    assert_type(builder.stream("anything"), KStream[str, Any])
    assert_type(builder.stream("numbers", key=Serdes.int64), KStream[int, Any])
    orders = builder.stream("orders", value=orders_serde)
    assert_type(orders, KStream[str, Order])
    users = builder.table("users", value=Serdes.json_of(User))
    assert_type(users, KTable[str, User])
    world = builder.global_table("world", key=Serdes.int32, value=Serdes.string)
    assert_type(world, GlobalKTable[int, str])

    amounts = orders.filter(lambda key, order: order.amount > 0).map_values(lambda order: order.amount)
    assert_type(amounts, KStream[str, int])
    assert_type(orders.map_values(lambda key, order: f"{key}{order.amount}", with_key=True), KStream[str, str])
    assert_type(orders.select_key(lambda key, order: order.amount), KStream[int, Order])
    assert_type(orders.map(lambda key, order: (order.amount, key)), KStream[int, str])
    assert_type(orders.flat_map_values(lambda order: [order.amount]), KStream[str, int])
    branches = amounts.split(name="by-").branch(lambda key, amount: amount > 100, name="large").default(name="rest")
    assert_type(branches, dict[str, KStream[str, int]])
    assert_type(branches["by-large"].merge(branches["by-rest"]), KStream[str, int])

    grouped = orders.group_by(lambda key, order: order.user, value=orders_serde)
    assert_type(grouped, KGroupedStream[str, Order])
    assert_type(grouped.count(), KTable[str, int])
    totals = grouped.aggregate(int, total, store="totals", value=Serdes.int64)
    assert_type(totals, KTable[str, int])
    assert_type(totals.to_stream(), KStream[str, int])
    windows = grouped.windowed_by(TimeWindows(1000, grace=10)).emit(EmitStrategy.on_window_update).count()
    assert_type(windows, KTable[Windowed, int])
    windows.suppress(Suppressed.until_window_closes(Buffer.unbounded())).to_stream(lambda key, count: str(key.key)).to(
        "counts"
    )
    sessions = grouped.windowed_by(SessionWindows(10)).aggregate(int, total, merger=lambda key, one, other: one + other)
    assert_type(sessions, KTable[Windowed, int])
    by_total = totals.group_by(lambda user, amount: (amount, user), key=Serdes.int64, value=Serdes.string)
    assert_type(by_total, KGroupedTable[int, str])

    assert_type(orders.left_join(users, describe), KStream[str, str])
    assert_type(orders.join(amounts, lambda one, two: 1.5, window=JoinWindows(10)), KStream[str, float])
    assert_type(orders.join(world, lambda order, text: text, select=lambda key, order: order.amount), KStream[str, Any])
    assert_type(totals.join(users, lambda amount, user: (amount, user.name)), KTable[str, tuple[int, str]])
    assert_type(totals.left_join(users, lambda amount, user: user), KTable[str, User | None])

    remembered = orders.process(Remember, stores=[Stores.key_value("last", value=Serdes.int64)])
    remembered.process_values(Double).to("remembered", value=Serdes.int64)
    return builder.build()


def run() -> dict[Any, Any]:
    """Run the program by hand."""
    with TopologyTestDriver(program(), lanes=2) as driver:
        driver.input_topic("orders", value=orders_serde).pipe("1", Order("ann", 5), timestamp=1)
        first = driver.output_topic("remembered", value=Serdes.int64).read()
        assert first is not None
        assert_type(first, Record[Any, Any])
        return driver.output_topic("remembered", value=Serdes.int64).read_table()
