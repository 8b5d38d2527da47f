"""By column or one by one: whatever way records go through a step, what leaves it is the same."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from both_ways import Runs, both_ways, needs_kernels, records, trying, usual, watch_columns
from hypothesis import given
from hypothesis import strategies as st

from penstock import Serdes, StreamsBuilder
from penstock.lane import mixed
from penstock.lane.task_batches import TaskBatches
from penstock.windows import TimeWindows


class Total(msgspec.Struct):
    count: int
    sum: int


def add(_key: Any, value: Any, total: Total) -> Total:
    total.count += 1
    total.sum += value["n"]
    return total


def stream(builder: StreamsBuilder) -> Any:
    return builder.stream("in", key=Serdes.string, value=Serdes.json)


def count(b: StreamsBuilder) -> None:
    stream(b).group_by_key().count(store="s").to_stream().to("out", value=Serdes.int64)


def sum_up(b: StreamsBuilder) -> None:
    summed = stream(b).group_by_key().aggregate(lambda: 0, lambda k, v, a: a + v["n"], store="s", value=Serdes.json)
    summed.to_stream().filter(lambda k, v: v % 3).to("out")


def totals(b: StreamsBuilder) -> None:
    kept = Serdes.json_of(Total)
    stream(b).group_by_key().aggregate(lambda: Total(0, 0), add, store="s", value=kept).to_stream().to(
        "out", value=kept
    )


def tuples(b: StreamsBuilder) -> None:
    """A serde that gives a list back for a tuple: what the function sees depends on it."""
    stream(b).group_by_key().aggregate(
        lambda: (), lambda k, v, a: (type(a).__name__, v["n"]), store="s"
    ).to_stream().to("out")


def deleting(b: StreamsBuilder) -> None:
    folded = stream(b).group_by_key().aggregate(lambda: 0, lambda k, v, a: None if v["n"] == 2 else a + 1, store="s")
    folded.to_stream().to("out")


def reduced(b: StreamsBuilder) -> None:
    stream(b).group_by_key().reduce(lambda a, v: {"n": (a["n"] * 2 + v["n"]) % 1000}, store="s").to_stream().to("out")


def stateless(b: StreamsBuilder) -> None:
    some = stream(b).filter(lambda k, v: v is not None).filter_not(lambda k, v: v["n"] == 1)
    some.map_values(lambda v: v["n"] + 1).map(lambda k, v: (f"{k}!", v)).flat_map_values(lambda v: range(v % 3)).to(
        "out"
    )


def pass_on(b: StreamsBuilder) -> None:
    stream(b).to("out")


def rekeyed(b: StreamsBuilder) -> None:
    words = stream(b).filter(lambda k, v: v is not None).flat_map(lambda k, v: [(str(v["n"]), "w"), ("all", "w")])
    words.group_by_key().count(store="s").to_stream().to("out", value=Serdes.int64)


def selected(b: StreamsBuilder) -> None:
    stream(b).select_key(lambda k, v: None if v is None else str(v["n"] % 2)).group_by_key().aggregate(
        list, lambda k, v, a: [*a, v["n"]], store="s"
    ).to_stream().to("out")


def forked(b: StreamsBuilder) -> None:
    source = stream(b)
    source.map_values(lambda v: v).to("other")
    source.group_by_key().reduce(lambda a, v: v, store="s").to_stream().to("out")
    source.filter(lambda k, v: v is not None).group_by(lambda k, v: str(v["n"])).count(store="t")


def meeting(b: StreamsBuilder) -> None:
    """Two branches into one topic: its order is that of the records."""
    source = stream(b)
    source.map_values(lambda v: "one").to("out")
    source.map_values(lambda v: "other").to("out")


class Box(msgspec.Struct):
    n: int


def mutating(b: StreamsBuilder) -> None:
    """A function that changes what another branch has, too; the serde would give it back as it was."""
    boxes = Serdes.json_of(Box)
    source = b.stream("in", key=Serdes.string, value=boxes)

    def merged(a: Any, v: Any) -> Any:
        a.n += v.n
        return a

    source.group_by_key().reduce(merged, store="s", value=boxes).to_stream().to("out", value=boxes)
    source.to("other", value=boxes)


def table(b: StreamsBuilder) -> None:
    b.table("in", key=Serdes.string, value=Serdes.json, store="s").filter(lambda k, v: v["n"] > 1).to_stream().to("out")


def windowed(b: StreamsBuilder) -> None:
    windows = TimeWindows(10, grace=5)
    keys = Serdes.windowed(Serdes.string, 10)
    stream(b).group_by_key().windowed_by(windows).count(store="s").to_stream().to("out", key=keys, value=Serdes.int64)


def windowed_sum(b: StreamsBuilder) -> None:
    windows = TimeWindows(10, grace=5)
    grouped = stream(b).filter(lambda k, v: v is not None).group_by(lambda k, v: str(v["n"] % 2)).windowed_by(windows)
    grouped.aggregate(lambda: 0, lambda k, v, a: a + v["n"], store="s").to_stream().map(lambda k, v: (str(k), v)).to(
        "out"
    )


def hopping(b: StreamsBuilder) -> None:
    """A hop that does not divide the size: records are in two or three windows, near the beginning of time in fewer."""
    windows = TimeWindows(10, advance=4, grace=5)
    keys = Serdes.windowed(Serdes.string, 10)
    stream(b).group_by_key().windowed_by(windows).count(store="s").to_stream().to("out", key=keys, value=Serdes.int64)


def hopping_and_changing(b: StreamsBuilder) -> None:
    """A value that several windows get, and that each of them keeps and changes."""

    def gather(_key: Any, value: Any, so_far: list[Any]) -> list[Any]:
        value["n"] += 10
        if so_far:
            so_far[-1]["n"] += 1
        so_far.append(value)
        return so_far[-3:]

    grouped = stream(b).filter(lambda k, v: v is not None).group_by_key(value=Serdes.json)
    lists = grouped.windowed_by(TimeWindows(10, advance=5, grace=5)).aggregate(list, gather, store="s")
    lists.to_stream().map(lambda k, v: (str(k), v)).to("out")


def hopping_and_merging(b: StreamsBuilder) -> None:
    """The first value of a window is its row, and is changed by those that follow; other windows get that value, too."""

    def merged(a: Any, v: Any) -> Any:
        a.n += v.n
        return a

    boxes = Serdes.json_of(Box)
    source = b.stream("in", key=Serdes.string, value=boxes).group_by_key()
    sums = source.windowed_by(TimeWindows(10, advance=5, grace=5)).reduce(merged, store="s", value=boxes)
    sums.to_stream().map(lambda k, v: (str(k), v)).to("out", value=boxes)


def joined(b: StreamsBuilder) -> None:
    table = b.table("in", key=Serdes.string, value=Serdes.json, store="s")
    stream_of = b.stream("side", key=Serdes.string, value=Serdes.json)
    stream_of.join(table, lambda v, row: [v["n"], row["n"]]).to("out")
    stream_of.left_join(table, lambda v, row: row is None).to("other")


def joined_with_counts(b: StreamsBuilder) -> None:
    """A table of counts that is read while it is written."""
    source = stream(b).filter(lambda k, v: v is not None)
    counts = source.group_by(lambda k, v: str(v["n"])).count(store="s")
    rekeyed = source.select_key(lambda k, v: str(v["n"]))
    rekeyed.join(counts, lambda v, count: [v["n"], count]).to("out")


SHAPES: list[Callable[[StreamsBuilder], None]] = [
    count, sum_up, totals, tuples, deleting, reduced, stateless, pass_on, rekeyed, selected, forked, meeting, mutating, table,
    windowed, windowed_sum, hopping, hopping_and_changing, hopping_and_merging, joined, joined_with_counts,
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@trying(15)
@given(epochs=st.lists(usual, min_size=1, max_size=2))
def test_usual_records(shape, folders, epochs):
    both_ways(shape, folders, epochs, "fail", by_key=shape is deleting)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@trying(8)
@given(epochs=st.lists(records, min_size=1, max_size=2))
def test_records_of_which_some_cannot_be_read_or_fail(shape, policy, folders, epochs):
    both_ways(shape, folders, epochs, policy, by_key=True)


@pytest.mark.parametrize("many", [255, 256, 70_000])
def test_records_that_are_counted_ahead_are_counted_whatever_their_number(folders, many):
    runs = Runs(rekeyed, folders(), "fail")
    epoch = [("in", 0, b"a", b'{"n":1}', 0, None)] * many
    for times in (1, 2):
        seen = runs.epoch(epoch)
        counts = {key: Serdes.int64.deserialize(count) for key, count, *_ in seen["sinks"]["out", -1]}
        assert counts == {b"1": times * many, b"all": times * many}


BY_COLUMN = [
    count, sum_up, totals, tuples, reduced, stateless, pass_on, rekeyed, selected, forked, mutating, windowed, windowed_sum,
    hopping, hopping_and_changing, hopping_and_merging,
]  # fmt: skip


@pytest.mark.parametrize("shape", BY_COLUMN, ids=lambda shape: shape.__name__)
def test_records_without_surprises_go_by_column_in_every_step(shape, folders, monkeypatch):
    taken = watch_columns(monkeypatch)
    runs = Runs(shape, folders(), "fail")
    for epoch in range(3):
        rows = [
            ("in", n % 2, b"abcdefgh"[n % 8 : n % 8 + 1], b'{"n":3}', 40 * epoch + n // 5, None) for n in range(200)
        ]
        seen = runs.epoch(rows)
        assert "failed" not in seen, seen
    assert taken
    assert all(taken)


@needs_kernels
@pytest.mark.parametrize("shape", [count, sum_up, totals], ids=lambda shape: shape.__name__)
def test_a_record_that_cannot_be_read_is_taken_out_of_its_batch(shape, folders, monkeypatch):
    monkeypatch.setattr(mixed, "MOST", 100)
    taken, process = [], TaskBatches.process
    monkeypatch.setattr(TaskBatches, "process", lambda *given: taken.append(process(*given)) or taken[-1])
    rows = [("in", 0, b"a", b'{"n":3}' if n != 150 else b"{", n // 10, None) for n in range(300)]
    seen = Runs(shape, folders(), "skip").epoch(rows)
    assert taken == [True, True, True]
    assert seen["dropped"] == {("KSTREAM-SOURCE-0000000000", "deserialization_error"): 1}
