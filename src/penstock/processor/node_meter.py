"""How many records each node takes and forwards, and how long it works: exact counts, sampled times.

A record that goes from one node to the next one passes an *edge*, which counts it; a batch is counted as a whole once its transaction
is committed. Time is measured within *sections* (a run of records, a batch, the flush of a store). The whole of a section is measured;
how it is shared among its nodes is measured for its batches, and for some of its records, of which the others are taken to be like.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from penstock.clock import stopwatch_ns
from penstock.distribution import SECONDS, Distribution
from penstock.processor.user_metrics import CollectedMetrics

#: of so many records that go one by one one is measured, the first always
ONE_OF = 241
#: calls of nodes that are measured at a time; a record may become many
MOST_CALLS = 128
#: of a batch every call is measured
ALL_CALLS = 1 << 40

#: distributions of what takes time, and of how late records are
PUNCTUATION_SECONDS, CALL_SECONDS, LATENESS = "punctuation_seconds", "async_call_seconds", "record_lateness_seconds"
#: upper bounds in seconds of how late records are: most are not
LATE = (0.0, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 86400.0)
BOUNDS = {PUNCTUATION_SECONDS: SECONDS, CALL_SECONDS: SECONDS, LATENESS: LATE}

#: as ``operators.base.Forward``
_Forward: TypeAlias = Callable[[Any, Any, int, Any], None]


class NodeWork(NamedTuple):
    """What a node did: records that came to it, records that it forwarded, microseconds."""

    records_in: int = 0
    records_out: int = 0
    us: int = 0

    def plus(self, more: NodeWork) -> NodeWork:
        """Return this and more of it."""
        return NodeWork(self.records_in + more.records_in, self.records_out + more.records_out, self.us + more.us)


class NodeMeter:
    """Counts for the nodes of the tasks of a step, or of a test driver. One thread; tasks of several shards may share it."""

    __slots__ = (
        "_calls_left",
        "_current",
        "_flows",
        "_in",
        "_inside",
        "_mark",
        "_ns",
        "_out",
        "_sample",
        "events",
        "sampling",
        "spreads",
        "user",
    )

    def __init__(self) -> None:
        #: whether calls of nodes are measured at the moment
        self.sampling = False
        #: (node, next nodes) → how many records went that way one by one
        self._flows: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        #: what else is counted: (metric, its labels) → how often
        self.events: dict[tuple[str, tuple[str, ...]], int] = {}
        #: how long things took: (metric, its labels) → the distribution
        self.spreads: dict[tuple[str, tuple[str, ...]], Distribution] = {}
        self.user = CollectedMetrics()
        self._in: dict[str, int] = {}
        self._out: dict[str, int] = {}
        self._ns: dict[str, float] = {}
        # of the section at hand: nanoseconds by node of what was measured, the node that works now, and since when
        self._sample: dict[str, int] = {}
        self._current: str | None = None
        self._mark = 0
        self._calls_left = 0
        #: nanoseconds of sections inside of it: they are not its own
        self._inside = 0

    @property
    def working(self) -> str | None:
        """The node that works at the moment, as far as it is measured."""
        return self._current

    # ---- counts

    def edge(self, node: str, children: tuple[tuple[str, _Forward], ...]) -> _Forward:
        """Return what hands records of a node to the next ones, in order, and counts them."""
        flow = self._flows.setdefault((node, tuple(name for name, _ in children)), [0])
        if len(children) == 1:
            return self._only(flow, *children[0])
        run = self.run

        def to_all(key: Any, value: Any, timestamp: int, headers: Any) -> None:
            flow[0] += 1
            for name, on_record in children:
                if self.sampling:
                    run(name, on_record, key, value, timestamp, headers)
                else:
                    on_record(key, value, timestamp, headers)

        return to_all

    def _only(self, flow: list[int], name: str, on_record: _Forward) -> _Forward:
        run = self.run

        def to_child(key: Any, value: Any, timestamp: int, headers: Any) -> None:
            flow[0] += 1
            if self.sampling:
                run(name, on_record, key, value, timestamp, headers)
            else:
                on_record(key, value, timestamp, headers)

        return to_child

    def count_in(self, node: str, count: int) -> None:
        """Count records that came to a node not by an edge."""
        self._in[node] = self._in.get(node, 0) + count

    def count_out(self, node: str, count: int) -> None:
        """Count records that a node has forwarded not by an edge."""
        self._out[node] = self._out.get(node, 0) + count

    def add(self, node: str, work: NodeWork) -> None:
        """Add what a node did elsewhere."""
        self.count_in(node, work.records_in)
        self.count_out(node, work.records_out)
        self._ns[node] = self._ns.get(node, 0.0) + 1000 * work.us

    def count(self, metric: str, *labels: str, times: int = 1) -> None:
        """Count something that happened: a metric of the table, and its labels."""
        self.events[metric, labels] = self.events.get((metric, labels), 0) + times

    def spread(self, metric: str, *labels: str) -> Distribution:
        """Return the distribution of a metric of the table."""
        found = self.spreads.get((metric, labels))
        if found is None:
            found = self.spreads[metric, labels] = Distribution(BOUNDS[metric])
        return found

    def work(self) -> dict[str, NodeWork]:
        """Return what each node did so far."""
        coming, going = dict(self._in), dict(self._out)
        for (node, children), (count,) in self._flows.items():
            if children:  # what goes to nobody is not forwarded
                going[node] = going.get(node, 0) + count
            for child in children:
                coming[child] = coming.get(child, 0) + count
        names = dict.fromkeys([*coming, *going, *self._ns])
        found = {n: NodeWork(coming.get(n, 0), going.get(n, 0), round(self._ns.get(n, 0) / 1000)) for n in names}
        return {name: work for name, work in found.items() if any(work)}

    # ---- times

    def within(self, node: str, call: Callable[..., Any], *args: Any, calls: int = MOST_CALLS) -> Any:
        """Call something as a section of its own, which begins at a node; up to so many calls of nodes are measured."""
        outer, inside = (self._sample, self._current, self.sampling, self._calls_left), self._inside
        began = self._charge()
        self._sample, self._current, self.sampling, self._calls_left = {}, node, True, calls
        self._inside = 0
        try:
            return call(*args)
        finally:
            ended = self._charge()
            self._share(node, ended - began - self._inside)
            self._sample, self._current, self.sampling, self._calls_left = outer
            self._mark, self._inside = ended, inside + ended - began

    def measure_again(self) -> None:
        """Measure the next calls, too; the section goes on."""
        self._mark = stopwatch_ns()
        self.sampling, self._calls_left = True, MOST_CALLS

    def measure_no_more(self) -> None:
        """Take what follows in the section to be like what was measured."""
        if self.sampling:
            self._charge()
            self.sampling = False

    def run(self, node: str, call: Callable[..., None], *args: Any) -> None:
        """Call a node, and charge it with the time that nodes below do not take."""
        before = self._current
        self._charge()
        self._current = node
        self._calls_left -= 1
        if self._calls_left < 0:
            self.sampling = False
        try:
            call(*args)
        finally:
            self._charge()
            self._current = before

    def timed(self, node: str, call: Callable[..., None], *args: Any) -> None:
        """Call what a node does when its time has come: a part of the section at hand, or one of its own."""
        if self.sampling:
            self.run(node, call, *args)
        elif self._current is None:
            self.within(node, call, *args)
        else:
            call(*args)

    def _charge(self) -> int:
        now = stopwatch_ns()
        if self.sampling and self._current is not None:
            self._sample[self._current] = self._sample.get(self._current, 0) + now - self._mark
        self._mark = now
        return now

    def _share(self, node: str, elapsed: int) -> None:
        """Share the time of the section at hand among its nodes as it was measured."""
        sample = self._sample or {node: 1}
        scale = elapsed / (sum(sample.values()) or 1)
        for name, ns in sample.items():
            self._ns[name] = self._ns.get(name, 0.0) + ns * scale


class NoMeter(NodeMeter):
    """Counts nothing: what measuring costs is the difference to it (``penstock bench --systems penstock-unwatched,...``)."""

    __slots__ = ()

    def edge(self, node: str, children: tuple[tuple[str, _Forward], ...]) -> _Forward:
        """Return what hands records to the next nodes."""
        if len(children) == 1:
            return children[0][1]

        def to_all(key: Any, value: Any, timestamp: int, headers: Any) -> None:
            for _, on_record in children:
                on_record(key, value, timestamp, headers)

        return to_all

    def count_in(self, node: str, count: int) -> None:
        """Do nothing."""

    def count_out(self, node: str, count: int) -> None:
        """Do nothing."""

    def count(self, metric: str, *labels: str, times: int = 1) -> None:
        """Do nothing."""

    def spread(self, metric: str, *labels: str) -> Distribution:
        """Return one that nobody looks at."""
        return Distribution(BOUNDS[metric])

    def within(self, node: str, call: Callable[..., Any], *args: Any, calls: int = MOST_CALLS) -> Any:
        """Call it."""
        return call(*args)

    def measure_again(self) -> None:
        """Do nothing."""

    def run(self, node: str, call: Callable[..., None], *args: Any) -> None:
        """Call it."""
        call(*args)

    def timed(self, node: str, call: Callable[..., None], *args: Any) -> None:
        """Call it."""
        call(*args)


def new_meter() -> NodeMeter:
    """Return the meter of a step; ``PENSTOCK_METERS=0``: one that counts nothing."""
    return NoMeter() if os.environ.get("PENSTOCK_METERS") == "0" else NodeMeter()
