"""The barrier lets cached stores forward until nothing is left: an update made while they forward is not lost."""

import pytest

from penstock import Processor, Serdes, Stores, StreamsBuilder, TimeWindows
from penstock.errors import ProcessingError
from penstock.record import ValueAndTimestamp
from penstock.testing import TopologyTestDriver


def writes_upstream(new):
    """Return a processor that passes records on and puts into the store ``counts`` what ``new(key, value)`` gives, if anything."""

    class WritesUpstream(Processor):
        def process(self, record):
            self.context.forward(record)
            put = new(record.key, record.value)
            if put is not None:
                key, value = put
                self.context.store("counts").put(key, ValueAndTimestamp(value, record.timestamp))

    return WritesUpstream


def counted(new):
    builder = StreamsBuilder()
    counts = builder.stream("in").group_by_key().count(store=Stores.key_value("counts", cached=True))
    counts.to_stream().process(writes_upstream(new), stores=["counts"]).to("out", value=Serdes.int64)
    return builder


def outputs(builder, *keys):
    with TopologyTestDriver(builder, auto_commit=False, shards=1) as driver:  # in which any key may be written
        driver.input_topic("in").pipe_all([(key, 1) for key in keys])
        driver.commit()
        out = [(record.key, record.value) for record in driver.output_topic("out", value=Serdes.int64).read_all()]
        return out, dict(driver.store("counts").all())


def test_a_write_into_the_store_that_is_forwarding_is_forwarded_too():
    out, rows = outputs(counted(lambda key, count: ("b", 10) if key == "a" else None), "a", "a")
    assert out == [("a", 2), ("b", 10)]
    assert rows == {"a": 2, "b": 10}


def test_updates_that_cause_updates_are_followed_to_their_end():
    out, rows = outputs(counted(lambda key, count: (key, count + 1) if count < 5 else None), "a")
    assert [count for _, count in out] == [1, 2, 3, 4, 5]
    assert rows == {"a": 5}


def test_a_write_into_a_store_that_had_its_turn_is_forwarded_too():
    builder = StreamsBuilder()
    counts = builder.stream("in").group_by_key().count(store=Stores.key_value("counts", cached=True))
    counts.to_stream().to("out", value=Serdes.int64)
    below = counts.map_values(str, store=Stores.key_value("texts", cached=True, value=Serdes.string)).to_stream()
    below.process(writes_upstream(lambda key, text: ("b", 9) if key == "a" else None), stores=["counts"]).foreach(
        lambda key, value: None
    )
    out, rows = outputs(builder, "a")
    assert out == [("a", 1), ("b", 9)]
    assert rows == {"a": 1, "b": 9}


def test_a_windowed_store_is_asked_again():
    builder = StreamsBuilder()
    seen = []

    class Reopens(Processor):
        def process(self, record):
            seen.append((record.key.start, record.value))
            if record.key.start == 0 and record.value == 1:
                self.context.store("counts").put(record.key.key, ValueAndTimestamp(7, record.timestamp), 10)

    windows = builder.stream("in").group_by_key().windowed_by(TimeWindows(10))
    counts = windows.count(store=Stores.window("counts", retention=100, size=10, cached=True))
    counts.to_stream().process(Reopens, stores=["counts"])
    with TopologyTestDriver(builder, auto_commit=False) as driver:
        driver.input_topic("in").pipe("a", 1, 5)
        driver.commit()
    assert seen == [(0, 1), (10, 7)]


def test_updates_without_end_are_an_error_that_says_why():
    with pytest.raises(
        ProcessingError, match=r"the cached stores counts still forward updates after \d+ passes"
    ) as caught:
        outputs(counted(lambda key, count: (key, count + 1)), "a")
    assert "writes into a cached store upstream of itself" in str(caught.value)
