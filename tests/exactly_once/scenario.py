"""One application through all its crashes: its topics, its input, its runs, and the check at the end."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.exactly_once.committed import Committed
from tests.exactly_once.feeder import Feeder
from tests.exactly_once.program import Program
from tests.exactly_once.workload import SINKS, contents, make_app, topic

from penstock.app import App, State
from penstock.engine.attempt import Observer
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog
from penstock.sql.committed_store import find_store
from penstock.sql.store_rows import read_split

PARTITIONS = {"orders": 4, "terms": 4}
SINK_PARTITIONS = 3
#: seconds for the application to come to the end of its input
PATIENCE = 120


class Epochs:
    """An observer of steps that counts barriers, for those who wait for one."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def __call__(self, step: str, epoch: int) -> None:
        """Be told of a step."""
        if step == "published":
            with self._changed:
                self.count += 1
                self._changed.notify_all()

    def wait_for(self, more: int) -> None:
        """Wait for so many barriers from now on."""
        with self._changed:
            goal = self.count + more
            assert self._changed.wait_for(lambda: self.count >= goal, PATIENCE), f"{self.count} barriers of {goal}"


class Scenario:
    """A context manager: the input flows from its beginning until `finish`; at the end no process and no folder is left."""

    def __init__(self, bootstrap: str, application: str, folder: Path, *, seed: int = 1) -> None:
        self.bootstrap = bootstrap
        self.application = application
        self.folder = folder
        self.log = KafkaLog(bootstrap, timeout=90)
        sinks = [TopicSpec(topic(application, name), SINK_PARTITIONS) for name in SINKS]
        sources = [TopicSpec(topic(application, name), count) for name, count in PARTITIONS.items()]
        self.log.admin.ensure_topics([*sinks, *sources])
        self.feeder = Feeder(self.log, application, PARTITIONS, seed)
        self.committed = Committed(self.log, application, SINK_PARTITIONS)
        self.programs: list[Program] = []
        self.apps: list[App] = []

    def start(self, *crashes: str, state: str = "", **options: Any) -> Program:
        """Start the application; ``state``: a state folder of its own, as if on another machine."""
        folder = self.folder / state if state else self.folder
        folder.mkdir(exist_ok=True)
        program = Program(self.bootstrap, self.application, folder, crashes=crashes, **options)
        self.programs.append(program)
        return program

    def app(self, session: Any, *observers: Observer, **options: Any) -> App:
        """Make the application inside this process, on a session that is there; it is closed with the scenario."""
        made = make_app(self.application, self.bootstrap, str(self.folder / "state"), spark=session, **options)
        self.apps.append(made)
        for observer in observers:
            made.on_step(observer)
        return made

    def lose_state(self) -> None:
        """Delete the state folder."""
        shutil.rmtree(self.folder / "state", ignore_errors=True)

    def wait_taken(self, program: Program, offsets: int) -> None:
        """Wait until the group has committed so many offsets more."""
        pause, goal = threading.Event(), self._taken() + offsets
        for _ in range(PATIENCE * 10):
            if self._taken() >= goal:
                return
            assert program.running, program.text()
            pause.wait(0.1)
        raise AssertionError(f"{self._taken()} of {goal} offsets were committed:\n{program.text()}")

    def _taken(self) -> int:
        return sum(self.feeder.offsets()[0].values())

    def finish(self, program: Program) -> dict[str, Any]:
        """Stop the input, let the application come to its end, end it in order; return the contents of its stores."""
        self.feeder.stop()
        self._wait_for_the_end(lambda: program.running, program.text)
        program.wait_for(
            "RUNNING"
        )  # the run before may have come to the end: one that has not begun cannot end in order
        return program.end()

    def finish_app(self, app: App) -> dict[str, Any]:
        """Do the same with an application inside this process."""
        self.feeder.stop()
        self._wait_for_the_end(lambda: app.state == State.RUNNING, lambda: f"{app.state}: {app.error}")
        found: dict[str, Any] = json.loads(json.dumps(contents(app)))
        assert app.close()
        return found

    def _wait_for_the_end(self, running: Callable[[], bool], text: Callable[[], str]) -> None:
        """Wait until the group's offsets are where the input ends."""
        pause = threading.Event()
        for _ in range(PATIENCE * 10):
            assert running(), text()
            done, ends = self.feeder.offsets()
            if all(done.get(place, 0) == end for place, end in ends.items()):
                return
            pause.wait(0.1)
        raise AssertionError(f"{done} was committed, the input ends at {ends}:\n{text()}")

    def check_barrier(self) -> None:
        """Check the stores as Kafka has them at the last barrier, after a kill: all of one epoch, no row of a later one.

        Every order is counted once in each store, so the counts of a customer agree, and the sums of all.
        """
        totals, items, windows = (self._stored(store) for store in ("totals", "items", "windows"))
        counted: dict[str, int] = {}
        for (customer, _), count in windows.items():
            counted[customer] = counted.get(customer, 0) + int.from_bytes(count, "big")
        assert counted == {customer: json.loads(total)[0] for (customer, _), total in totals.items()}
        assert sum(counted.values()) == sum(json.loads(total)[0] for total in items.values())

    def _stored(self, store: str) -> dict[tuple[str, int | None], bytes]:
        """Return the rows of a store by key and window."""
        found = find_store(self.log, self.application, store)
        kept: dict[tuple[str, int | None], bytes] = {}
        for split in found.splits:
            rows = read_split(self.log, found, split)
            starts = [None] * rows.size if rows.starts is None else rows.starts.tolist()
            for key, start, value in zip(rows.keys.to_pylist(), starts, rows.values.to_pylist(), strict=True):
                assert kept.setdefault((key.decode(), start), value) is value
        return kept

    def check(self, contents: dict[str, Any]) -> None:
        """Check everything that a crash must not change."""
        orders = self.feeder.orders
        assert orders
        self.committed.check_results(orders)
        self.committed.check_stores(contents, orders, self.feeder.terms)
        self.committed.check_no_open_transaction()
        self.committed.check_epoch_record()
        done, ends = self.feeder.offsets()
        assert done == ends

    def check_leftovers(self, programs: Iterable[Program]) -> None:
        """No process outlives its driver for long."""
        for program in programs:
            left = program.leftovers()
            assert not left, f"processes {left} outlive their driver:\n{program.text()}"

    def __enter__(self) -> Scenario:
        self.feeder.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for program in self.programs:
                program.close()
            for app in self.apps:
                app.close()
            if error is None:
                self.feeder.stop()
        finally:
            self.feeder.abandon()
            self.log.close()
            shutil.rmtree(self.folder, ignore_errors=True)
