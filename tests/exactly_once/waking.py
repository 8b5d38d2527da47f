"""A branch of the workload that is woken by clocks: timers of both kinds for every order, and a scheduled source.

What must hold, for any kills: every order's two timers have fired once or wait still, never both; the firings of the scheduled source
follow each other without a gap and without a repeat.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from zlib import crc32

from penstock import KStream, Processor, Record, Serdes, Stores, StreamsBuilder
from penstock.log.kafka import KafkaLog

if TYPE_CHECKING:  # the model knows the workload, and that this branch
    from tests.exactly_once.model import Order

SINKS = ("rung", "beats")
#: between an order and its timers, in milliseconds
EVENT_MS, PROCESSING_MS = 400, 300
BEAT_MS = 500


class Reminding(Processor[Any, Any]):
    """Sets two timers for an order, and notes that it waits for them."""

    def process(self, record: Record[Any, Any]) -> None:
        """Register."""
        waiting, order = self.context.store("waiting"), f"{record.key}:{record.value['n']}"
        self.context.timers.register_event_time(f"e:{order}", record.timestamp + EVENT_MS)
        self.context.timers.register_processing_time(f"p:{order}", self.context.system_time + PROCESSING_MS)
        waiting.put(f"e:{order}", 1)
        waiting.put(f"p:{order}", 1)

    def on_timer(self, timestamp: int, key: str, context: Any) -> None:
        """Tell of it, and wait for it no more."""
        context.forward(Record(key, context.store("waiting").delete(key), timestamp))


def by_key(topic: str, key: str, value: Any, partitions: int) -> int:
    """Return the partition of an order."""
    return crc32(key.encode()) % partitions


def add(builder: StreamsBuilder, orders: KStream[Any, Any], name: Any) -> None:
    """Add the branch; ``name(word)``: a topic of the run."""
    builder.add_state_store(Stores.timers("timers", key=Serdes.string))
    builder.add_state_store(Stores.key_value("waiting"))
    # timers and rows have keys of their own: they belong to the partition that the partitioner chose
    by_partition = orders.repartition(name="by-partition", partitioner=by_key)
    by_partition.process(Reminding, stores=["timers", "waiting"], name="reminding").to(name("rung"))
    builder.scheduled(BEAT_MS, beat, name="beat").to(name("beats"))


def beat(context: Any) -> None:
    """Tell which due times this firing covers."""
    context.forward("beat", [context.since, context.timestamp])


def check(log: KafkaLog, name: Any, partitions: int, orders: list[Order], waiting: list[list[Any]]) -> tuple[int, int]:
    """Check what was committed; return how many timers have fired, and how often the source."""
    rung = Counter(key for key, _ in _rows(log, name("rung"), partitions))
    assert all(value == 1 for _, value in _rows(log, name("rung"), partitions)), (
        "a timer fired for what was not waited for"
    )
    assert set(rung.values()) <= {1}, f"fired more than once: {[key for key, count in rung.items() if count > 1][:5]}"
    still = {key for key, _ in waiting}
    wanted = {f"{kind}:{order.customer}:{order.n}" for order in orders for kind in "ep"}
    assert not still & rung.keys(), "fired, and waits still"
    assert still | rung.keys() == wanted
    beats = [value for _, value in _rows(log, name("beats"), partitions)]
    for before, (since, until) in pairwise(beats):
        assert since == before[1] + BEAT_MS, f"{before} is followed by {[since, until]}"
        assert until >= since
    return len(rung), len(beats)


def _rows(log: KafkaLog, name: str, partitions: int) -> list[tuple[str, Any]]:
    places = [(name, partition) for partition in range(partitions)]
    ends, reader = log.admin.end_offsets(places), log.reader()
    try:
        found = [record for place in places for record in reader.read(*place, 0, ends[place])]
    finally:
        reader.close()
    return [((record.key or b"").decode(), json.loads(record.value or b"null")) for record in found]
