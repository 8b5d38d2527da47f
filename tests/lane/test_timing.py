"""What lanes are told of time, as arithmetic; and the letters of late records."""

import pytest

from penstock import (
    ConfigError,
    EmitStrategy,
    LatePolicy,
    ProcessingError,
    Serdes,
    StreamsBuilder,
    TimestampError,
    TimeWindows,
    WatermarkStrategy,
)
from penstock.lane.timing import Heard, Timing, Told, is_due
from penstock.state.partition_times import IDLE
from penstock.testing import TopologyTestDriver

SOURCE_OF = {"in": "in"}


def windowed(on_close=True, **source):
    builder = StreamsBuilder()
    grouped = builder.stream("in", value=Serdes.string, name="in", **source).group_by_key()
    windows = grouped.windowed_by(TimeWindows(10, grace=2))
    if on_close:
        windows = windows.emit(EmitStrategy.on_window_close)
    windows.count(name="counts").to_stream(name="stream", key=lambda window, count: window.key).to("out")
    return builder


def told(heard, *, shards=4, waiting=(), now=0, **source):
    timing = Timing(windowed(**source).build(), idle_ms=100, shards=shards)
    return timing.told(heard, SOURCE_OF, waiting, now)


def heard(*times, arrived=0):
    places = {("in", index): time for index, time in enumerate(times)}
    return Heard(reached=places, arrived=dict.fromkeys(places, arrived))


def test_each_clock_is_told_of_every_index():
    assert told(heard(7, 30)).clocks == {"counts": [(0, 7), (1, 30)]}


def test_one_shard_with_one_partition_is_told_nothing():
    assert told(heard(7), shards=1).clocks == {"counts": [(0, -1)]}


def test_an_index_is_idle_once_it_is_read_and_quiet():
    quiet = Heard({("in", 0): 7, ("in", 1): 30}, arrived={("in", 0): 0, ("in", 1): 50})
    assert told(quiet, now=99).clocks["counts"] == [(0, 7), (1, 30)]
    assert told(quiet, now=100).clocks["counts"] == [(0, IDLE), (1, 30)]
    assert told(quiet, now=100, waiting={("in", 0)}).clocks["counts"] == [(0, 7), (1, 30)]
    assert told(quiet, now=150).clocks["counts"] == [(0, IDLE), (1, 30)]


def test_with_idle_after_time_goes_on_from_what_records_brought_and_never_twice():
    how = WatermarkStrategy.monotonic().idle_after(5)
    first = told(heard(7, 30), now=5, watermark=how)
    assert (first.clocks["counts"], first.ahead) == ([(0, IDLE), (1, 35)], [("in", 1, 35)])
    remembered = Heard(heard(7, 30).reached, arrived=heard(7, 30).arrived, ahead={("in", 1): 35})
    assert told(remembered, now=8, watermark=how).clocks["counts"] == [(0, IDLE), (1, 38)]
    assert told(remembered, now=8, watermark=how, waiting={("in", 1)}).clocks["counts"] == [(0, IDLE), (1, 35)]


def test_a_task_is_due_if_what_is_told_moves_a_clock_to_what_waits():
    shot = {"due": {"c": 12}, "clocks": {"c": [[0, 5]]}, "punctuations": {}, "stream_time": 5}
    assert not is_due(Told({"c": [(0, 11)]}), shot)
    assert is_due(Told({"c": [(0, 12)]}), shot)
    assert not is_due(Told({"c": [(0, 12), (1, 3)]}), shot)
    assert not is_due(Told({"c": [(0, 12)]}), {**shot, "clocks": {"c": [[0, 12]]}})
    punctuated = {**shot, "due": {}, "punctuations": {"stream_time": {"next": 9}}}
    assert is_due(Told(stream_time=9), punctuated)
    assert not is_due(Told(stream_time=8), punctuated)


def test_a_late_letter_says_which_window_and_by_how_much():
    with TopologyTestDriver(windowed(late=LatePolicy.dead_letter), config={"dead_letter_topic": "letters"}) as driver:
        topic = driver.input_topic("in", value=Serdes.string)
        topic.pipe("k", "one", 15)
        topic.pipe("k", "late", 3, headers=[("own", b"1")])
        assert driver.metrics()["dropped_by_reason"] == {"late_window": 1}
        letter = driver.output_topic("letters", value=Serdes.string).read()
    prefix = "__streams.errors."
    assert (letter.key, letter.value, letter.timestamp) == ("k", "late", 3)
    assert letter.headers == (
        ("own", b"1"),
        (f"{prefix}message", b"late for the window 0 to 10 of counts"),
        (f"{prefix}topic", b"in"),
        (f"{prefix}partition", b"0"),
        (f"{prefix}offset", b"1"),
        (f"{prefix}node", b"counts"),
        (f"{prefix}window-start", b"0"),
        (f"{prefix}window-end", b"10"),
        (f"{prefix}watermark", b"15"),
        (f"{prefix}late-by-ms", b"5"),
    )


def test_the_policy_of_a_source_holds_behind_a_new_key_and_a_merge():
    builder = StreamsBuilder()
    kept = builder.stream("kept", value=Serdes.string, late=LatePolicy.dead_letter)
    lost = builder.stream("lost", value=Serdes.string)
    merged = kept.merge(lost).group_by(lambda key, value: "all", value=Serdes.string)
    merged.windowed_by(TimeWindows(10)).count(store="s")
    with TopologyTestDriver(builder, config={"dead_letter_topic": "letters"}) as driver:
        topics = {name: driver.input_topic(name, value=Serdes.string) for name in ("kept", "lost")}
        topics["kept"].pipe("k", "new", 15)
        topics["kept"].pipe("k", "letter", 3)
        topics["lost"].pipe("k", "gone", 3)
        assert driver.metrics()["dropped_by_reason"] == {"late_window": 2}
        assert driver.output_topic("letters", value=Serdes.string).read_values() == ["letter"]


def test_letters_need_a_topic():
    with pytest.raises(
        ConfigError, match=r"source .in. has late=LatePolicy\.dead_letter, which needs dead_letter_topic"
    ):
        TopologyTestDriver(windowed(late=LatePolicy.dead_letter))


@pytest.mark.parametrize("answer", ["soon", 1.5, True])
def test_a_strategy_that_gives_no_time_is_an_error_that_names_it(answer):
    def when(key, value, timestamp):
        return answer

    with (
        TopologyTestDriver(windowed(watermark=WatermarkStrategy.custom(when))) as driver,
        pytest.raises((TimestampError, ProcessingError), match=r"watermark strategy(.|\n)*when"),
    ):
        driver.input_topic("in", value=Serdes.string).pipe("k", "v", 1)
