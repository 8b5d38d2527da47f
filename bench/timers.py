"""What a timer costs, among how many: ``python -m bench.timers``. One shard in LMDB, opened anew for every epoch, as a lane does.

Time of a firing is all of it: open the task, move stream time, find and call what is due, seal, apply. Prints; asserts nothing of time.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from time import process_time
from typing import Any

from penstock import Processor, Record, Serdes, Stores, Topology
from penstock.clock import StillClock
from penstock.config import load
from penstock.lane.task import Task
from penstock.record import Origin
from penstock.state.lmdb_store import LmdbState

SIZES = (10_000, 100_000, 1_000_000)
#: timers that fire in an epoch, and how many such epochs are measured
FIRING, EPOCHS = 1_000, 5
REGISTERED_AT_A_TIME = 50_000
ORIGIN = Origin("in", 0, 0, 0, None, None, ())


class Counting(Processor[Any, Any]):
    """Registers a timer for each time in a record; counts what fires."""

    fired = 0

    def process(self, record: Record[Any, Any]) -> None:
        """Register."""
        register = self.context.timers.register_event_time
        for key, at in record.value:
            register(key, at)

    def on_timer(self, timestamp: int, key: Any, context: Any) -> None:
        """Count."""
        Counting.fired += 1


def epoch(topology: Topology, state: LmdbState, snapshot: Any, timers: list[tuple[str, int]], time: int) -> Any:
    """Run one record in a new task, up to its barrier; return the snapshot for the next."""
    task = Task(topology, 0, state, application_id="bench", config=load({}, environ={}), clock=StillClock(0))
    if snapshot is not None:
        task.resume(snapshot)
    task.process_all("in", [("k", timers, time, (), ORIGIN._replace(timestamp=time))])
    task.flush()
    told = task.snapshot()
    task.apply(task.seal())
    task.close()
    state.release()
    return told


def measure(size: int) -> None:
    """Print the costs among so many timers."""
    topology = Topology().add_source("in", "in").add_processor("p", Counting, "in")
    topology.add_state_store(Stores.timers("timers", key=Serdes.string), "p")
    folder = tempfile.mkdtemp(prefix="penstock-bench-timers-")
    state = LmdbState(folder)
    draw = random.Random(1)
    try:
        times = list(range(1, size + 1))
        draw.shuffle(times)
        snapshot, began = None, process_time()
        for at in range(0, size, REGISTERED_AT_A_TIME):
            timers = [(f"key-{time % 5000}", 1000 + time) for time in times[at : at + REGISTERED_AT_A_TIME]]
            snapshot = epoch(topology, state, snapshot, timers, 1)
        registering = process_time() - began
        began, Counting.fired = process_time(), 0
        for number in range(1, EPOCHS + 1):
            snapshot = epoch(topology, state, snapshot, [], 1000 + number * FIRING)
        firing = process_time() - began
        assert Counting.fired == FIRING * EPOCHS
        began = process_time()
        for _ in range(EPOCHS):
            snapshot = epoch(topology, state, snapshot, [], 1000 + EPOCHS * FIRING)
        idle = process_time() - began
        print(
            f"{size:>9,} registered: {registering / size * 1e6:6.2f} µs a registration, "
            f"{firing / Counting.fired * 1e6:6.2f} µs a fired timer, {idle / EPOCHS * 1e3:6.2f} ms an epoch in which none fires",
            flush=True,
        )
    finally:
        state.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    for each in SIZES:
        measure(each)
