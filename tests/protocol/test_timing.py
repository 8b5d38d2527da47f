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
from penstock.protocol.timing import ObservedTimes, TimeUpdate, Timing, is_due
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


def told(heard, *, waiting=(), now=0, **source):
    timing = Timing(windowed(**source).build(), idle_ms=100)
    return timing.time_update(heard, SOURCE_OF, waiting, now)


def heard(*times, arrived=0):
    places = {("in", index): time for index, time in enumerate(times)}
    return ObservedTimes(reached=places, arrived=dict.fromkeys(places, arrived))


def test_each_feed_is_told_of_every_index():
    answer = told(heard(7, 30))
    assert (answer.feeds, answer.ahead) == ({"in": [(0, 7), (1, 30)]}, [])
    assert (answer.time_of("in"), answer.time_of("another")) == (7, -1)


def test_before_the_first_record_nothing_is_told():
    assert told(ObservedTimes()).feeds == {}


def test_an_allowance_is_taken_off_and_a_function_tells_the_time_itself():
    lag = WatermarkStrategy.bounded(10)
    assert told(heard(7, 30), watermark=lag).feeds == {"in": [(0, 0), (1, 20)]}
    function = WatermarkStrategy.custom(lambda key, value, timestamp: timestamp)
    marked = ObservedTimes(heard(7, 30).reached, marks={("in", 1): 3}, arrived=heard(7, 30).arrived)
    assert told(marked, watermark=function).feeds == {"in": [(1, 3)]}


def test_of_an_index_the_greatest_of_all_topics_that_feed_a_node_counts():
    builder = StreamsBuilder()
    merged = builder.stream("in", name="in").merge(builder.stream("other", name="other"))
    merged.group_by_key().windowed_by(TimeWindows(10)).count(name="counts")
    reached = {("in", 0): 7, ("other", 0): 12, ("in", 1): 30}
    timing = Timing(builder.build(), idle_ms=100)
    found = timing.time_update(
        ObservedTimes(reached, arrived=dict.fromkeys(reached, 0)), {"in": "in", "other": "other"}, (), 0
    )
    assert found.feeds["in+other"] == [(0, 12), (1, 30)]


def test_an_index_is_idle_once_it_is_read_and_quiet():
    quiet = ObservedTimes({("in", 0): 7, ("in", 1): 30}, arrived={("in", 0): 0, ("in", 1): 50})
    assert told(quiet, now=99).feeds["in"] == [(0, 7), (1, 30)]
    assert told(quiet, now=100).feeds["in"] == [(1, 30)]
    assert told(quiet, now=100, waiting={("in", 0)}).feeds["in"] == [(0, 7), (1, 30)]
    assert told(quiet, now=150).feeds["in"] == [(1, 30)]  # of those that are all idle the greatest


def test_with_idle_after_time_goes_on_from_what_records_brought_and_never_twice():
    how = WatermarkStrategy.monotonic().idle_after(5)
    first = told(heard(7, 30), now=5, watermark=how)
    assert (first.feeds["in"], first.ahead) == ([(1, 35)], [("in", 1, 35)])
    remembered = ObservedTimes(heard(7, 30).reached, arrived=heard(7, 30).arrived, ahead={("in", 1): 35})
    assert told(remembered, now=8, watermark=how).feeds["in"] == [(1, 38)]
    again = told(remembered, now=8, watermark=how, waiting={("in", 1)})
    assert (again.feeds["in"], again.ahead) == ([(1, 35)], [])


def test_a_task_is_due_if_what_is_told_moves_a_feed_to_what_waits():
    shot = {"due": {"in": (5, 12)}, "punctuations": {}, "stores": {}}
    assert not is_due(TimeUpdate({"in": [(0, 11)]}), shot)
    assert is_due(TimeUpdate({"in": [(0, 12)]}), shot)
    assert not is_due(TimeUpdate({"in": [(0, 12), (1, 3)]}), shot)
    assert not is_due(TimeUpdate({"in": [(0, 12)]}), {**shot, "due": {"in": (12, 12)}})
    assert not is_due(TimeUpdate({"in": [(0, 12)]}), {**shot, "due": {"in": 12}})  # of versions before 0.2: by clock


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
