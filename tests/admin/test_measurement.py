"""Numbers that are made of others, by rules: late records, times of sub-topologies, lags. Of a real application: ``test_measured.py``."""

from types import SimpleNamespace

import pytest

from penstock import Serdes, StreamsBuilder
from penstock.admin import inspection, measurement
from penstock.engine.totals import Totals
from penstock.plan.passes import make_plan
from penstock.protocol.timing import PartitionTime


def test_late_records_are_those_that_windows_dropped_but_for_those_kept():
    totals = Totals()
    assert list(measurement._late(totals)) == []
    totals.dropped.update({("w", "late_window"): 3, ("j", "late_join"): 2, ("w", "null_key"): 7})
    totals.events["records_late_total", ("dead_letter",)] = 4
    assert [tuple(sample) for sample in measurement._late(totals)] == [("records_late_total", ("drop",), 1)]


def plan():
    builder = StreamsBuilder()
    lines = builder.stream(["a", "b"], value=Serdes.string)
    lines.group_by(lambda key, value: value).count().to_stream().to("out")
    return make_plan(builder.build())


def time(topic, partition, watermark, *, idle=False, time=None):
    source = "KSTREAM-SOURCE-0000000000"
    return PartitionTime(topic, partition, source, watermark if time is None else time, watermark, 0, idle)


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([time("a", 0, 5_000), time("b", 0, 9_000), time("a", 1, 7_000)], 7.0),
        ([time("a", 0, 5_000), time("a", 1, 2_000, idle=True)], 5.0),
        ([time("a", 0, 5_000, idle=True)], 5.0),
        ([time("a", 0, 5_000), time("a", 1, -1)], 5.0),
    ],
)
def test_a_sub_topology_is_as_far_as_the_last_index_of_its_partitions(times, seconds):
    loop = SimpleNamespace(partition_times=lambda: times)
    assert [tuple(sample) for sample in measurement._stream_times(loop, plan())] == [
        ("stream_time_seconds", ("0",), seconds)
    ]


def test_nothing_is_told_of_time_before_there_is_any():
    loop = SimpleNamespace(partition_times=lambda: [time("a", 0, -1)])
    assert list(measurement._stream_times(loop, plan())) == []


def test_position_end_and_lag_of_all_partitions_that_are_known():
    committed = SimpleNamespace(positions={("in", 1): 7, ("in", 0): 3})
    loop = SimpleNamespace(committed=committed, lags=lambda: {("in", 1): 2, ("new", 0): 5})
    rows = inspection.progress(loop, [("timed", 0)])
    assert [tuple(row.values()) for row in rows.values()] == [
        ("in", 0, 3, 3, 0),
        ("in", 1, 7, 9, 2),
        ("new", 0, None, 5, 5),
        ("timed", 0, None, 0, 0),
    ]


def test_the_step_at_hand_says_how_long_it_lasts(monkeypatch):
    from penstock.engine.history import StepNow

    monkeypatch.setattr(inspection, "stopwatch_us", lambda: 150)
    assert inspection.step_now(SimpleNamespace(now=None)) is None
    told = inspection.step_now(SimpleNamespace(now=StepNow("commit", 3, 100)))
    assert told == {"step": "commit", "epoch": 3, "since_us": 100, "for_us": 50}
