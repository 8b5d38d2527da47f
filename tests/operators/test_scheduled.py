"""Scheduled sources: when they fire, what they see, where their records go. Without Spark; with it: app/test_scheduled.py."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest
from pyspark import cloudpickle

from penstock import ProcessingError, Record, Serdes, Stores, StreamsBuilder, TopologyError
from penstock.engine.fingerprint import fingerprint
from penstock.plan.passes import make_plan
from penstock.testing import TopologyTestDriver

MINUTE = 60_000


def tell(context: Any) -> None:
    context.forward("tick", [context.since, context.timestamp])


def ticking(every_or_cron: Any = 10, emitter: Any = tell, **options: Any) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.scheduled(every_or_cron, emitter, **options).to("out")
    return builder


def ticks(driver: TopologyTestDriver) -> list[Any]:
    return [row.value for row in driver.output_topic("out").read_all()]


def test_an_interval_is_due_at_its_multiples() -> None:
    with TopologyTestDriver(ticking(), start=103) as driver:
        driver.advance_wall_clock(6)
        assert ticks(driver) == []
        driver.advance_wall_clock(1)
        assert driver.output_topic("out").read() == Record("tick", [110, 110], 110)
        driver.advance_wall_clock(10)
        driver.advance_wall_clock(9)
        driver.advance_wall_clock(1)
        assert ticks(driver) == [[120, 120], [130, 130]]


def test_a_cron_expression_is_due_at_its_minutes() -> None:
    with TopologyTestDriver(ticking("*/15 * * * *"), start=14 * MINUTE) as driver:
        for _ in range(20):
            driver.advance_wall_clock(timedelta(minutes=1))
        assert ticks(driver) == [[15 * MINUTE] * 2, [30 * MINUTE] * 2]


def test_of_due_times_that_were_missed_the_latest_fires_and_tells_of_the_first() -> None:
    with TopologyTestDriver(ticking()) as driver:
        driver.advance_wall_clock(57)
        driver.advance_wall_clock(3)
        assert ticks(driver) == [[10, 50], [60, 60]]


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("auto_commit", [True, False])
def test_it_fires_once_and_its_records_find_the_lane_of_their_key(lanes: int, auto_commit: bool) -> None:
    def emit(context: Any) -> None:
        for key in "abcdef":
            context.forward(key, context.timestamp)

    builder = StreamsBuilder()
    prices = builder.table("prices", value=Serdes.int64)
    beats = builder.scheduled(10, emit)
    beats.group_by_key().count(store=Stores.key_value("n", cached=False)).to_stream().to("counts", value=Serdes.int64)
    beats.join(prices, lambda at, price: [at, price]).to("joined")
    with TopologyTestDriver(builder, lanes=lanes, auto_commit=auto_commit) as driver:
        for number, key in enumerate("abcdef"):
            driver.input_topic("prices", value=Serdes.int64).pipe(key, number, 0)
        driver.commit()
        for _ in range(3):
            driver.advance_wall_clock(10)
            driver.commit()
        counts = driver.output_topic("counts").read_all()
        assert sorted((row.key, row.value, row.timestamp) for row in counts) == [
            (key, n, 10 * n) for key in "abcdef" for n in (1, 2, 3)
        ]
        joined = driver.output_topic("joined").read_all()
        assert sorted((row.key, *row.value) for row in joined) == sorted(
            (key, 10 * n, number) for number, key in enumerate("abcdef") for n in (1, 2, 3)
        )


def test_the_emitter_reads_any_store_at_the_last_barrier_and_sets_time_and_headers() -> None:
    def emit(context: Any) -> None:
        for key, count in context.view("n").all():
            context.forward(key, count, timestamp=context.timestamp - 1, headers={"from": context.node.encode()})

    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(store="n")
    builder.scheduled(10, emit, name="report").to("out", value=Serdes.int64)
    with TopologyTestDriver(builder, lanes=2) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("b", 1), ("a", 1)], 0, 0)
        driver.advance_wall_clock(10)
        rows = driver.output_topic("out").read_all()
        headers = (("from", b"report"),)
        assert sorted(rows, key=lambda row: row.key) == [Record("a", 2, 9, headers), Record("b", 1, 9, headers)]


def test_its_records_move_the_clock_of_windows_below() -> None:
    from penstock import EmitStrategy, TimeWindows

    builder = StreamsBuilder()
    windows = builder.scheduled(10, tell).group_by_key().windowed_by(TimeWindows(20))
    windows.emit(EmitStrategy.on_window_close).count(store="w").to_stream(key=lambda key, _: key.start).to(
        "out", key=Serdes.int64, value=Serdes.int64
    )
    with TopologyTestDriver(builder) as driver:
        for _ in range(5):
            driver.advance_wall_clock(10)
        assert [(row.key, row.value) for row in driver.output_topic("out").read_all()] == [(0, 1), (20, 2)]


def test_beside_it_a_quiet_stream_with_an_idle_time_goes_on_with_the_wall_clock() -> None:
    from penstock import EmitStrategy, TimeWindows, WatermarkStrategy

    builder = StreamsBuilder()
    stream = builder.stream("in", watermark=WatermarkStrategy.monotonic().idle_after(5))
    merged = stream.merge(builder.scheduled(1_000_000, tell)).group_by_key().windowed_by(TimeWindows(20))
    merged.emit(EmitStrategy.on_window_close).count(store="w").to_stream(key=lambda key, _: key.start).to(
        "out", key=Serdes.int64, value=Serdes.int64
    )
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("k", 1, 3)
        driver.advance_wall_clock(10)
        assert driver.output_topic("out").read() is None
        driver.advance_wall_clock(10)
        assert driver.output_topic("out").read_all() == [Record(0, 1, 3)]


def test_an_emitter_that_raises_is_told_of_with_node_and_line() -> None:
    def broken(context: Any) -> None:
        raise ValueError("no network")

    with TopologyTestDriver(ticking(10, broken, name="beat")) as driver:
        with pytest.raises(ProcessingError, match="no network") as caught:
            driver.advance_wall_clock(10)
        assert caught.value.node == "beat"
        assert "broken" in str(caught.value)
        assert "test_scheduled.py" in str(caught.value)


def test_an_emitter_that_raises_is_judged_by_the_policy_and_fires_again() -> None:
    def flaky(context: Any) -> None:
        if context.timestamp == 10:
            raise ValueError("no network")
        tell(context)

    with TopologyTestDriver(ticking(10, flaky, name="beat"), config={"on_processing_error": "skip"}) as driver:
        driver.advance_wall_clock(10)
        driver.advance_wall_clock(10)
        assert ticks(driver) == [[20, 20]]
        assert driver.metrics()["dropped_by_node"] == {("beat", "processing_error"): 1}


def test_the_pictures_and_the_fingerprint_show_it_but_its_times_may_be_changed() -> None:
    topology = ticking("0 6 * * *", name="morning").build()
    assert "Source: morning (schedule: cron 0 6 * * *)\n      --> KSTREAM-SINK-" in topology.describe()
    assert 'schedule1(["cron 0 6 * * *"])' in topology.to_mermaid()
    assert "schedule1 --> node0" in topology.to_mermaid()
    assert "cron 0 6 * * *" in topology.to_svg()
    shown = topology.to_json()["subtopologies"][0]["nodes"][0]
    assert [__file__ in function for function in shown.pop("functions")] == [True]
    assert shown == {
        "kind": "source",
        "topics": [],
        "schedule": "cron 0 6 * * *",
        "name": "morning",
        "parents": [],
        "children": ["KSTREAM-SINK-0000000001"],
    }
    assert "reads    schedule cron 0 6 * * *" in make_plan(topology).explain()
    assert fingerprint(topology) == fingerprint(ticking("0 7 * * *", name="morning").build())
    assert fingerprint(topology) != fingerprint(ticking("0 6 * * *", name="evening").build())


def test_a_step_with_a_schedule_runs_in_the_lanes_where_its_next_time_is_kept() -> None:
    plan = make_plan(ticking().build())
    assert plan.steps[0].exchange
    assert plan.steps[0].scheduled
    assert pickle.loads(cloudpickle.dumps(plan)).steps == plan.steps  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("every", [0, -5, 2.5, None, True, "every day", timedelta(0)])
def test_what_is_no_schedule_is_refused(every: Any) -> None:
    with pytest.raises(TopologyError):
        ticking(every)


def test_what_is_no_emitter_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"scheduled\(\) calls its function with \(context\)"):
        ticking(10, lambda: None)
    with pytest.raises(TopologyError, match=r"scheduled\(\) needs a function of \(context\)"):
        ticking(10, "tell")
