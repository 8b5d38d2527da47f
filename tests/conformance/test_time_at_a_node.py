"""Where time differs from Kafka Streams', on purpose: pinned beside what Kafka does."""

from typing import Any

from compare import run_both
from operator_families import append, both

from penstock import EmitStrategy, JoinWindows, Serdes, SlidingWindows, Stores, StreamsBuilder, TimeWindows
from penstock.processor import Processor
from penstock.testing import TopologyTestDriver

TEXT = {"key": Serdes.string, "value": Serdes.string}
INPUTS = dict.fromkeys(("in", "other"), (Serdes.string, Serdes.string))


def values(run: Any) -> list[tuple[bytes, int]]:
    return [(value, timestamp) for _, value, timestamp, _ in run.output.get("out", ())]


def windows(builder: Any, **how: Any) -> Any:
    grouped = builder.stream("in", **TEXT).group_by_key(**TEXT).windowed_by(TimeWindows(10))
    return grouped.emit(EmitStrategy.on_window_close, **how)


def closed(builder: Any) -> None:
    table = windows(builder).aggregate(str, append, store="kept", value=Serdes.string)
    table.to_stream().to("out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.string)


def test_a_record_that_does_not_reach_an_operator_moves_its_time() -> None:
    """A record without a key is dropped in front of the window. Its time counts here, and not in Kafka."""
    both_runs = run_both(closed, [("in", "a", "x", 5), ("in", None, "y", 25), ("in", "a", "z", 7)], inputs=INPUTS)
    assert values(both_runs.penstock) == [(b",x", 5)]
    assert values(both_runs.kafka) == []
    behind = run_both(closed, [("in", "a", "x", 5), ("in", "b", "y", 25), ("in", "a", "z", 7)], inputs=INPUTS)
    assert values(behind.penstock) == values(behind.kafka) == [(b",x", 5)]


def test_what_time_gives_out_has_no_headers() -> None:
    script = [("in", "a", "x", 5), ("in", "b", "y", 25, (("h", b"1"),))]
    both_runs = run_both(closed, script, inputs=INPUTS)
    assert [row[3] for row in both_runs.kafka.output["out"]] == [(("h", b"1"),)]
    assert [row[3] for row in both_runs.penstock.output["out"]] == [()]

    def joined(builder: Any) -> None:
        left, right = builder.stream("in", **TEXT), builder.stream("other", **TEXT)
        left.left_join(right, both, window=JoinWindows(5), other_value=Serdes.string, **TEXT).to("out", **TEXT)

    script = [("in", "a", "x", 5), ("other", "b", "y", 25, (("h", b"1"),)), ("in", "c", "z", 26)]
    both_runs = run_both(joined, script, inputs=INPUTS, in_memory=False)
    assert values(both_runs.penstock) == values(both_runs.kafka) == [(b"x/None", 5)]
    assert [row[3] for row in both_runs.penstock.output["out"]] == [()]


class Put(Processor):
    """Puts a window that is as old as its value says."""

    def process(self, record: Any) -> None:
        self.context.store("kept").put(record.key, record.value, int(record.value))


def putting(builder: Any) -> None:
    builder.add_state_store(Stores.window("kept", retention=100, size=10, **TEXT))
    builder.stream("in", **TEXT).process(Put, stores=["kept"])


def test_a_store_of_a_processor_expires_by_the_time_of_its_sources() -> None:
    """Kafka's store goes by what was put: here nothing but old windows, in a store that keeps whole segments of a minute."""
    script = [("in", "a", "5", 1_000_000)]
    both_runs = run_both(putting, script, inputs=INPUTS, in_memory=False)
    assert [row[:3] for row in both_runs.kafka.stores["kept"] or ()] == [("a", 5, "5")]
    assert both_runs.penstock.stores["kept"] == []
    builder = StreamsBuilder()
    putting(builder)
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in", **TEXT).pipe("a", "5", 1_000_000)
        assert driver.metrics()["dropped_by_reason"] == {"expired": 1}


def sliding(builder: Any) -> None:
    grouped = builder.stream("in", **TEXT).group_by_key(**TEXT).windowed_by(SlidingWindows(10))
    store = Stores.window("kept", 20, 10, cached=False)
    table = grouped.aggregate(str, append, store=store, value=Serdes.string)
    table.to_stream().to("out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.string)


def test_rows_of_sliding_windows_may_be_seen_a_little_longer() -> None:
    """The right window of 35 starts at 36: the newest start that was put, which is known in the shard of its key alone."""
    script = [("in", "b", "x", 19), ("in", "a", "y", 39), ("in", "a", "z", 35)]
    both_runs = run_both(sliding, script, inputs=INPUTS, in_memory=False)
    assert values(both_runs.penstock) == values(both_runs.kafka)
    kafka, penstock = ({row[1] for row in run.stores["kept"] or ()} for run in (both_runs.kafka, both_runs.penstock))
    assert kafka <= penstock
