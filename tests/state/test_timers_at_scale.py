"""Many timers: what fires costs, what waits does not. Rows of the base are counted, not seconds; seconds: ``bench/timers.py``.

Here a hundred thousand; a million with ``PENSTOCK_LONG=1``.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from penstock.lane.task import Task
from penstock.processor import Processor
from penstock.record import Origin, Record
from penstock.serde import Serdes
from penstock.state.base import BytesStore
from penstock.state.lmdb_store import LmdbState
from penstock.state.open import Standalone
from penstock.state.spec import Stores
from penstock.state.timers import AHEAD, TimerStore

TIMERS = 1_000_000 if os.environ.get("PENSTOCK_LONG") else 100_000
KEYS = 1_000
#: timers registered in one epoch
EPOCH = 50_000


class Counted:
    """A base map that counts the rows it gives out."""

    def __init__(self, base: BytesStore) -> None:
        self._base = base
        self.touched = 0

    def get(self, key: bytes) -> bytes | None:
        self.touched += 1
        return self._base.get(key)

    def range(self, lower: bytes | None, upper: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        for row in self._base.range(lower, upper, reverse):
            self.touched += 1
            yield row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)


def opened(state: LmdbState) -> tuple[TimerStore, Counted]:
    """Open the store as every epoch does in a lane: anew."""
    store = TimerStore(Stores.timers("t"), state, Standalone(), Serdes.string)
    counted = Counted(store._base)
    store._base = counted  # type: ignore[assignment]
    return store, counted


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LmdbState, list[tuple[int, str]]]]:
    """A shard with many timers, in LMDB; and what they are, by time, then key."""
    draw = random.Random(7)
    state = LmdbState(tmp_path_factory.mktemp("timers"))
    wanted = {(draw.randrange(10 * TIMERS), f"key-{draw.randrange(KEYS):04d}") for _ in range(TIMERS)}
    shuffled = sorted(wanted)
    draw.shuffle(shuffled)
    for at in range(0, len(shuffled), EPOCH):
        store, _ = opened(state)
        for time, key in shuffled[at : at + EPOCH]:
            store.register("event", key, time)
        store.apply(store.seal())
    yield state, sorted(wanted)
    state.destroy()


def test_many_timers_fire_in_order_and_only_what_fires_is_touched(full: tuple[LmdbState, list[Any]]) -> None:
    state, wanted = full
    assert len(wanted) > TIMERS * 0.99
    fired = 0
    for count in 0, 1, 10, 1_000, 5_000:  # each in an epoch of its own
        store, base = opened(state)
        base.touched = 0
        now = wanted[fired + count][0] - 1
        due = list(store.due("event", now))
        assert due == [pair for pair in wanted[fired : fired + count + 10] if pair[0] <= now]
        sealed = store.seal()
        # a row that fires is read ahead, looked up when it comes up, and once more when it is sealed
        assert base.touched <= 3 * len(due) + 2 * AHEAD
        assert len(sealed.changelog) == len(due)
        store.apply(sealed)
        fired += len(due)


def test_registering_among_many_looks_at_none_of_them(full: tuple[LmdbState, list[Any]]) -> None:
    state, _ = full
    store, base = opened(state)
    base.touched = 0
    for number in range(500):
        store.register("processing", f"key-{number}", 10_000 + number)
        store.delete("processing", f"key-{number}", 10_000 + number)
    assert base.touched == 0


class Firing(Processor[Any, Any]):
    """Registers what records say; tells what fires."""

    fired: ClassVar[list[tuple[int, str]]] = []

    def process(self, record: Record[Any, Any]) -> None:
        for at in record.value:
            self.context.timers.register_event_time(record.key, at)

    def on_timer(self, timestamp: int, key: str, context: Any) -> None:
        self.fired.append((timestamp, key))


def test_the_timers_of_a_processor_fire_in_order_with_few_rows_touched(full: tuple[LmdbState, list[Any]]) -> None:
    from penstock import Topology
    from penstock.clock import StillClock
    from penstock.config import load
    from penstock.lane.timeline import Moves, Timelines

    state, _ = full
    topology = Topology().add_source("in", "in").add_processor("p", Firing, "in")
    topology.add_state_store(Stores.timers("t", key=Serdes.string), "p")
    task = Task(topology, 0, state, application_id="a", config=load({}, environ={}), clock=StillClock(0))
    store = task.stores["t"]
    base = store._base = Counted(store._base)
    first = store.earliest("event")
    until = first + 20_000
    Firing.fired = []
    before = max(first - 5, 0)
    origin = Origin("in", 0, 0, before, None, None, (), 0, before)
    later = origin._replace(offset=1, timestamp=until, reached=until)
    moves = Moves(*(np.array(column) for column in ([0, 0], [0, 1], [before, until], [before, until])))
    task.time.start(Timelines(moves, ["in"], {"in": "in"}, {}, ()))
    task.process_all("in", [("new", [first + 7, first + 9], before, (), origin)])
    base.touched = 0
    task.process_all("in", [("new", [], until, (), later)])
    assert Firing.fired == sorted(Firing.fired)
    assert {(first + 7, "new"), (first + 9, "new")} <= set(Firing.fired)
    assert base.touched <= 2 * len(Firing.fired) + 2 * AHEAD
    by_key = [at for at, key in Firing.fired if key == Firing.fired[0][1]]
    assert by_key == sorted(by_key)
    task.close()
