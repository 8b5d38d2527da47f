"""Windows, emit strategies and suppression."""

from datetime import timedelta

import pytest

from penstock import (
    Buffer,
    EmitStrategy,
    JoinWindows,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
    Windowed,
)
from penstock.testing import TopologyTestDriver


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (TimeWindows(1000), TimeWindows(timedelta(seconds=1))),
        (TimeWindows(1000, 500, 10), TimeWindows(size=1000, advance=timedelta(milliseconds=500), grace=10)),
        (SlidingWindows(1000, 5), SlidingWindows(timedelta(seconds=1), grace=timedelta(milliseconds=5))),
        (SessionWindows(1000, 5), SessionWindows(gap=timedelta(seconds=1), grace=5)),
        (UnlimitedWindows(), UnlimitedWindows(start=0)),
        (JoinWindows(1000), JoinWindows(timedelta(seconds=1), before=1000, after=1000, grace=0)),
        (JoinWindows(10, 5, 7, 3), JoinWindows(difference=10, before=5, after=7, grace=3)),
    ],
)
def test_durations_are_milliseconds_or_timedeltas(short, long):
    assert short == long


@pytest.mark.parametrize(
    "make",
    [
        lambda: TimeWindows(0),
        lambda: TimeWindows(-1),
        lambda: TimeWindows(10, advance=11),
        lambda: TimeWindows(10, advance=0),
        lambda: TimeWindows(10, grace=-1),
        lambda: SlidingWindows(-1),
        lambda: SessionWindows(0),
        lambda: UnlimitedWindows(start=-1),
        lambda: JoinWindows(-1),
        lambda: JoinWindows(10, before=-11),
        lambda: TimeWindows("10s"),
        lambda: TimeWindows(1.5),
    ],
)
def test_nonsense_is_refused(make):
    with pytest.raises(Exception, match=r"."):
        make()


def windowed(window, emit=None, suppressed=None):
    builder = StreamsBuilder()
    stream = builder.stream("in").group_by_key().windowed_by(window)
    if emit is not None:
        stream = stream.emit(emit)
    table = stream.reduce(lambda a, b: a + b, store="s")
    if suppressed is not None:
        table = table.suppress(suppressed)
    table.to_stream(key=lambda w, v: f"{w.key}@{w.start}/{w.end}").to("out")
    return builder


def outputs(builder, rows):
    with TopologyTestDriver(builder) as driver:
        for t, v in rows:
            driver.input_topic("in").pipe("a", v, timestamp=t)
        return [(r.key, r.value, r.timestamp) for r in driver.output_topic("out").read_all()]


def test_hopping_windows():
    assert outputs(windowed(TimeWindows(10, advance=5)), [(7, "x"), (12, "y")]) == [
        ("a@0/10", "x", 7),
        ("a@5/15", "x", 7),
        ("a@5/15", "xy", 12),
        ("a@10/20", "y", 12),
    ]


def test_unlimited_windows():
    rows = outputs(windowed(UnlimitedWindows(start=5)), [(3, "x"), (7, "y"), (9999, "z")])
    assert [v for _, v, _ in rows] == ["y", "yz"]
    assert rows[0][0].startswith("a@5/")


def test_sliding_windows():
    rows = outputs(windowed(SlidingWindows(5)), [(10, "x"), (13, "y")])
    assert {k: v for k, v, _ in rows} == {"a@5/10": "x", "a@8/13": "xy", "a@11/16": "y"}


def test_emit_on_close_says_each_window_once():
    builder = windowed(TimeWindows(10, grace=5), EmitStrategy.on_window_close)
    assert outputs(builder, [(1, "a"), (3, "b"), (12, "c"), (2, "d"), (15, "e"), (3, "late"), (25, "f")]) == [
        ("a@0/10", "abd", 3),
        ("a@10/20", "ce", 15),
    ]


def test_emit_on_update_is_the_default():
    rows = [(1, "a"), (3, "b"), (12, "c")]
    assert outputs(windowed(TimeWindows(10)), rows) == outputs(
        windowed(TimeWindows(10), EmitStrategy.on_window_update), rows
    )


def test_suppress_until_the_window_closes():
    builder = windowed(TimeWindows(10), suppressed=Suppressed.until_window_closes())
    assert outputs(builder, [(1, "a"), (3, "b"), (12, "c")]) == [("a@0/10", "ab", 3)]
    builder = windowed(TimeWindows(10), suppressed=Suppressed.until_window_closes(buffer=Buffer.unbounded()))
    assert outputs(builder, [(1, "a"), (3, "b"), (12, "c")]) == [("a@0/10", "ab", 3)]


def test_suppress_until_the_window_closes_needs_a_window_and_a_strict_buffer():
    builder = StreamsBuilder()
    with pytest.raises(Exception, match=r"(?i)window"):
        builder.table("in").suppress(Suppressed.until_window_closes())
    with pytest.raises(Exception, match=r"(?i)shut_down_when_full"):
        Suppressed.until_window_closes(Buffer.max_records(3))
    with pytest.raises(Exception, match=r"(?i)early"):
        Suppressed.until_window_closes(Buffer.max_records(3).emit_early_when_full())
    Suppressed.until_window_closes(Buffer.max_records(3).shut_down_when_full())
    Suppressed.until_window_closes(Buffer.max_bytes(3).shut_down_when_full())


def suppressed_table(suppressed, rows):
    builder = StreamsBuilder()
    builder.table("in").suppress(suppressed).to_stream().to("out")
    with TopologyTestDriver(builder, shards=1) as driver:  # a buffer is that of a shard
        for k, v, t in rows:
            driver.input_topic("in").pipe(k, v, timestamp=t)
        return [(r.key, r.value, r.timestamp) for r in driver.output_topic("out").read_all()]


def test_suppress_until_a_time_limit():
    rows = [("a", 1, 0), ("a", 2, 5), ("b", 1, 9), ("c", 1, 10), ("d", 1, 19)]
    assert suppressed_table(Suppressed.until_time_limit(timedelta(milliseconds=10), Buffer.unbounded()), rows) == [
        ("a", 2, 5),
        ("b", 1, 9),
    ]


def test_a_full_buffer_emits_the_oldest_early():
    rows = [("a", 1, 0), ("b", 1, 1), ("c", 1, 2)]
    assert suppressed_table(Suppressed.until_time_limit(1000, Buffer.max_records(2)), rows) == [("a", 1, 0)]
    assert suppressed_table(Suppressed.until_time_limit(1000, Buffer.max_records(1).emit_early_when_full()), rows) == [
        ("a", 1, 0),
        ("b", 1, 1),
    ]
    assert len(suppressed_table(Suppressed.until_time_limit(1000, Buffer.max_bytes(1)), rows)) == 3


def test_a_full_buffer_may_shut_down():
    rows = [("a", 1, 0), ("b", 1, 1), ("c", 1, 2)]
    with pytest.raises(Exception, match=r"(?i)buffer"):
        suppressed_table(Suppressed.until_time_limit(1000, Buffer.max_records(2).shut_down_when_full()), rows)


def test_windows_read_back_from_their_topic():
    serde = Serdes.windowed(Serdes.string, 10)
    assert serde.deserialize(serde.serialize(Windowed("a", 20, 30))) == Windowed("a", 20, 30)
    assert serde.serialize(Windowed("a", 20, 30)) == b"a" + (20).to_bytes(8, "big")
    session = Serdes.session_windowed(Serdes.string)
    assert session.deserialize(session.serialize(Windowed("a", 20, 33))) == Windowed("a", 20, 33)
    assert session.serialize(Windowed("a", 20, 33)) == b"a" + (33).to_bytes(8, "big") + (20).to_bytes(8, "big")
