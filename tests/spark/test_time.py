"""The rules of time through Spark and a real broker: the cases of tests/testing/test_time.py, with the same results.

Some only with ``PENSTOCK_LONG=1``.
"""

from __future__ import annotations

import os

import pytest
from tests.spark.runs import Layout
from tests.spark.scripts import build, renamed
from tests.testing.time_cases import CASES, PARTITIONS, SHARDS, Restarted, Sent, Settled, Waited

from penstock.clock import MockClock, SystemClock

#: what another case shows too, in the driver at any rate: run in the long form only
LONG_ONLY = {
    "sessions_of_a_quiet_key_close",
    "sliding_windows_of_a_quiet_key_close",
    "the_slowest_partition_sets_the_time",
    "a_partition_that_comes_back_goes_on_where_it_was_if_nothing_is_final",
    "without_idle_after_the_time_of_a_quiet_application_stands_still",
    "late_records_are_accepted_within_the_grace",
    "late_records_of_a_source_that_drops_them_have_no_grace",
    "late_records_of_a_source_that_drops_them_do_not_join",
}
CHOSEN = [case for case in CASES if os.environ.get("PENSTOCK_LONG") or case.name not in LONG_ONLY]
LAYOUT = Layout(lanes=2, shards=SHARDS, partitions=PARTITIONS, chunks=1)


@pytest.mark.parametrize("each", CHOSEN, ids=lambda case: case.name)
def test_through_spark(each, bench):
    run = Run(bench, each)
    try:
        for number, step in enumerate(each.steps):
            match step:
                case Sent(key, value, timestamp, partition, topic):
                    bench.send([(run.prefix + topic, partition, key.encode(), value.encode(), timestamp, ())])
                case Waited(ms):
                    run.clock.advance(ms)
                case Settled(rows, dropped):
                    found = run.settle()
                    assert (number, found) == (number, sorted(rows))
                    assert run.dropped == dropped
                case Restarted():
                    run.restart()
    finally:
        run.close()


class Run:
    """An application, driven by hand."""

    def __init__(self, bench, each):
        self.bench = bench
        self.application = bench.fresh(each.name[:40])
        self.prefix = f"{self.application}."
        self.topology = renamed(build(each.build), self.prefix)
        self.config = dict(each.config)
        if "dead_letter_topic" in self.config:
            self.config["dead_letter_topic"] = self.prefix + self.config["dead_letter_topic"]
        self.out = self.prefix + "out"
        names = [self.out, *(self.prefix + topic for topic in each.inputs)]
        self.topics = bench.make_topics(self.topology, self.application, names, LAYOUT)
        self.clock = MockClock(SystemClock().now_ms())
        self.dropped: dict[str, int] = {}
        self._known: list[tuple[str, int]] = []
        self.start()

    def start(self):
        self.engine = self.bench.engine(self.topology, self.application, LAYOUT, self.config, self.clock)
        self.loop = self.engine.start()
        self._dropped_before = dict(self.dropped)

    def restart(self):
        self.engine.close()
        self.start()

    def settle(self):
        """Run epochs until nothing is due; return what is new in the output, in order of value."""
        while self.loop.step():
            pass
        self.dropped = dict(self._dropped_before)
        for (_, reason), number in self.loop.totals.dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + number
        rows = self.bench.committed({self.out: PARTITIONS}, {})[self.out]
        found = [(written.value.decode(), written.timestamp) for _, _, written in rows]
        new = list(found)
        for row in self._known:
            new.remove(row)
        self._known = found
        return sorted(new)

    def close(self):
        self.engine.close()
        self.bench.log.admin.delete_topics(self.topics)
