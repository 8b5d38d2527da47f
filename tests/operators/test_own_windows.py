"""Windows of the user's own: whatever starts they give, each window takes a record, closes and is kept as the built-in ones."""

import pickle

import pytest

from penstock import (
    ProcessingError,
    Serdes,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
    Windowed,
    Windows,
)
from penstock.testing import TopologyTestDriver

pytestmark = pytest.mark.capability("KG4")


class Shifts(Windows):
    """Two kinds of windows of eight hours: those of the day shift, from 6 on, overlap with those of the late shift, from 12 on."""

    size, grace = 8, 2

    def starts_for(self, timestamp):
        day = timestamp // 24 * 24
        return [day + start for start in (6, 12) if day + start <= timestamp < day + start + self.size]


class Backwards(TimeWindows):
    """A built-in class with other starts: newest first."""

    def starts_for(self, timestamp):
        return super().starts_for(timestamp)[::-1]


class Early(Windows):
    """Starts before time does."""

    size, grace = 10, 0

    def starts_for(self, timestamp):
        return [timestamp - 5]


def counts(windows, *records, then=lambda table: table, **store):
    builder = StreamsBuilder()
    windowed = builder.stream("in").group_by_key().windowed_by(windows)
    table = then(windowed.count(store=Stores.window("counts", retention=100, size=windows.size, **store)))
    table.to_stream().to("out", key=Serdes.windowed(Serdes.string, windows.size), value=Serdes.int64)
    with TopologyTestDriver(builder) as driver:
        for record in records:
            driver.input_topic("in").pipe(*record)
        output = driver.output_topic("out", key=Serdes.windowed(Serdes.string, windows.size), value=Serdes.int64)
        return [(r.key, r.value, r.timestamp) for r in output.read_all()], driver.metrics()


def test_the_built_in_time_windows_are_windows():
    assert isinstance(TimeWindows(5), Windows)
    assert isinstance(UnlimitedWindows(), Windows)


def test_windows_without_starts_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (Windows,), {"size": 5, "grace": 0})()


@pytest.mark.parametrize("cached", [True, False])
def test_a_record_is_in_every_window_that_has_it_and_in_none_outside(cached):
    rows, _ = counts(Shifts(), ("a", 1, 3), ("a", 1, 7), ("a", 1, 12), ("a", 1, 13), ("a", 1, 30), cached=cached)
    assert rows == [
        (Windowed("a", 6, 14), 1, 7),
        (Windowed("a", 6, 14), 2, 12),
        (Windowed("a", 12, 20), 1, 12),
        (Windowed("a", 6, 14), 3, 13),
        (Windowed("a", 12, 20), 2, 13),
        (Windowed("a", 30, 38), 1, 30),
    ]


def test_a_record_that_comes_after_end_and_grace_is_dropped():
    rows, metrics = counts(Shifts(), ("a", 1, 15), ("a", 1, 13), ("a", 1, 16), ("a", 1, 13))
    assert rows[1:] == [
        (Windowed("a", 6, 14), 1, 13),
        (Windowed("a", 12, 20), 2, 15),
        (Windowed("a", 12, 20), 3, 16),
        (Windowed("a", 12, 20), 4, 16),
    ]
    assert sum(metrics["dropped_by_node"].values()) == 1


def test_suppress_waits_until_the_window_and_its_grace_are_over():
    suppressed = Suppressed.until_window_closes()
    rows, _ = counts(
        Shifts(), ("a", 1, 7), ("a", 1, 8), ("a", 1, 15), ("a", 1, 16), then=lambda t: t.suppress(suppressed)
    )
    assert rows == [(Windowed("a", 6, 14), 2, 8)]


def test_a_subclass_of_built_in_windows_says_its_own_starts():
    rows, _ = counts(Backwards(10, advance=5), ("a", 1, 12), cached=False)
    assert [row[0].start for row in rows] == [10, 5]


def test_reduce_and_aggregate_take_them_too():
    builder = StreamsBuilder()
    windowed = builder.stream("in").group_by_key().windowed_by(Shifts())
    key = Serdes.windowed(Serdes.string, 8)
    windowed.reduce(lambda one, two: one + two).to_stream().to("sums", key=key)
    windowed.aggregate(list, lambda key, value, values: [*values, value]).to_stream().to("lists", key=key)
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("a", 2)], start=7)
        assert driver.output_topic("sums", key=key).read_table() == {Windowed("a", 6, 14): 3}
        assert driver.output_topic("lists", key=key).read_table() == {Windowed("a", 6, 14): [1, 2]}


def test_a_cogroup_takes_them_too():
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    table = grouped.cogroup(lambda key, value, total: total + value).windowed_by(Shifts()).aggregate(int)
    table.to_stream().to("out", key=Serdes.windowed(Serdes.string, 8))
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 4, 7)
        assert driver.output_topic("out", key=Serdes.windowed(Serdes.string, 8)).read_values() == [4]


def test_a_store_keeps_them_for_size_and_grace_by_default():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().windowed_by(Shifts()).count(store="counts")
    spec = builder.build().stores["counts"]
    assert (spec.retention, spec.window_size) == (10, 8)


def test_a_window_that_starts_before_0_is_an_error_of_the_node():
    with pytest.raises(ProcessingError, match=r"starts_for\(3\) of Early gave -2: no window starts before 0") as caught:
        counts(Early(), ("a", 1, 3))
    assert caught.value.node.startswith("KSTREAM-AGGREGATE-")


def test_they_pickle():
    assert pickle.loads(pickle.dumps(Shifts())).starts_for(13) == [6, 12]
