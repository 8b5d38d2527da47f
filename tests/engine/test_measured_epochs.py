"""What is measured of epochs: stalls, and how long the broker was away; steps and latencies; what of the reports is a total."""

import pyarrow as pa
import pytest

from penstock.engine import stalls as module
from penstock.engine.history import CommittedEpoch
from penstock.engine.meters import Meters
from penstock.engine.stalls import Stalls
from penstock.engine.totals import Totals
from penstock.engine.work import Work
from penstock.errors import BrokerError, EngineError
from penstock.protocol.envelope import CHANGELOG, SCHEMA, SINK, EnvelopeRow, batches_of
from penstock.protocol.report import TaskReport

AWAY, WORKER = BrokerError("nobody there", retriable=True), EngineError("a worker has ended")


@pytest.fixture
def pass_time(monkeypatch):
    now = [0]
    monkeypatch.setattr(module, "stopwatch_us", lambda: now[0])

    def advance(us):
        now[0] += us

    return advance


def test_a_stall_begins_with_its_first_error_and_ends_with_the_epoch(pass_time):
    stalls = Stalls()
    assert stalls.now is None
    pass_time(5)
    stalls.begin(WORKER)
    pass_time(10)
    stalls.begin(EngineError("another one"))
    assert (stalls.now.reason, stalls.now.away, stalls.now.since_us) == ("EngineError", False, 5)
    stalls.end()
    assert (stalls.now, stalls.unavailable_us) == (None, 0), "the broker has answered all the time"


def test_the_time_without_a_broker_is_added_up(pass_time):
    stalls = Stalls()
    for error, us in ((AWAY, 10), (AWAY, 20), (WORKER, 40), (AWAY, 80)):
        stalls.begin(error)
        pass_time(us)
    stalls.end()
    stalls.end()
    assert stalls.unavailable_us == 10 + 20 + 80


def test_a_broker_that_refuses_for_good_is_not_away(pass_time):
    stalls = Stalls()
    stalls.begin(BrokerError("no right to it"))
    pass_time(10)
    assert not stalls.now.away
    stalls.end()
    assert stalls.unavailable_us == 0


def test_a_commit_is_all_that_follows_the_lanes():
    meters = Meters()
    steps = {"run lanes": 5_000_000, "begin": 1_000_000, "commit": 2_000_000, "lane: decode": 9_000_000}
    meters.count(CommittedEpoch(1, "spark", 0, 10, 100, {}, 1, (), steps))
    meters.count(CommittedEpoch(2, "tick", 0, 0, 0, {}, 0, (), {"commit": 500_000}))
    assert (meters.epochs, meters.commits.total) == ({"spark": 1, "tick": 1}, 3.5)
    assert {kind: found.total for kind, found in meters.durations.items()} == {"spark": 8.0, "tick": 0.5}
    assert {step: found.total for step, found in meters.steps.items()} == {
        "run lanes": 5.0,
        "begin": 1.0,
        "commit": 2.5,
    }
    assert (meters.records.cumulative()[-1], meters.records.total, meters.bytes.total) == (1, 10, 100), (
        "ticks read nothing"
    )


def test_latency_is_that_of_rows_of_sinks(monkeypatch):
    monkeypatch.setattr("penstock.engine.meters.MOST_MEASURED", 10)
    rows = [EnvelopeRow(SINK, 0, "out", 0, b"k", b"v", 9_000 + n) for n in range(40)]
    rows += [EnvelopeRow(CHANGELOG, 0, "counts", 0, b"k", b"v", 0) for _ in range(40)]
    meters = Meters()
    meters.add_latencies(pa.Table.from_batches(batches_of(rows), SCHEMA), 10_000)
    meters.add_latencies(None, 10_000)
    (found,) = meters.latencies.values()
    assert [*meters.latencies] == ["out"]
    assert found.cumulative()[-1] == 5, "one of eight rows is measured, so that it is ten at most"
    assert found.total == pytest.approx(1.0 + 0.992 + 0.984 + 0.976 + 0.968)


def work_of(*reports):
    return Work(None, None, None, [], {}, {}, {}, reports=list(reports))


def test_records_count_where_they_are_read_and_all_else_wherever_it_was():
    totals = Totals()
    first = TaskReport(
        0, 0, 7, 70, dropped=[("a", "late", 2)], nodes=[("a", 7, 5, 10)], read=[("in", 0, 7, 70)], spent={"decode": 3}
    )
    second = TaskReport(
        1, 0, 5, 50, dropped=[("a", "late", 1)], nodes=[("a", 1, 1, 5), ("b", 5, 0, 1)], spent={"decode": 4}
    )
    for _ in range(2):
        totals.count(work_of(first, second), {"collect": 1})
    assert (totals.epochs, totals.records_in) == (2, 14)
    assert totals.dropped == {("a", "late"): 6}
    assert {node: tuple(work) for node, work in totals.nodes.items()} == {"a": (16, 12, 30), "b": (10, 0, 2)}
    assert (totals.read, totals.read_bytes) == ({("in", 0): 14}, {("in", 0): 140})
    assert totals.sizes == {0: 140, 1: 100}
    assert totals.profile == {"lane: decode": 7, "lane: collect": 1}
    assert totals.spent == {"lane: decode": 14, "lane: collect": 2}
