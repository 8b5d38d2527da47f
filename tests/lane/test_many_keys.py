"""New, rare and repeated keys, however the epochs and the batches are cut: by column as one by one."""

from typing import Any

import msgspec
import pytest
from both_ways import Runs, both_ways, needs_kernels, trying
from hypothesis import given
from hypothesis import strategies as st

from penstock import Serdes, StreamsBuilder
from penstock.lane import mixed
from penstock.protocol.envelope import pack_headers
from penstock.state.rows import RowStore
from penstock.state.sorted_run import SortedRun
from penstock.windows import TimeWindows


class Total(msgspec.Struct):
    count: int
    sum: int


kept = Serdes.json_of(Total)


def add(_key: Any, value: Any, total: Total) -> Total:
    return Total(total.count + 1, total.sum + value["n"])


def grouped(b: StreamsBuilder) -> Any:
    return b.stream("in", key=Serdes.string, value=Serdes.json).group_by_key()


def count(b: StreamsBuilder) -> None:
    grouped(b).count(store="s").to_stream().to("out", value=Serdes.int64)


def totals(b: StreamsBuilder) -> None:
    grouped(b).aggregate(lambda: Total(0, 0), add, store="s", value=kept).to_stream().to("out", value=kept)


def mapped(b: StreamsBuilder) -> None:
    """What is forwarded is decoded again, and goes on to another key."""
    table = grouped(b).aggregate(lambda: Total(0, 0), add, store="s", value=kept)
    table.to_stream().map(lambda k, v: (str(v.count), v.sum)).group_by_key(value=Serdes.json).count(store="t")


def reduced(b: StreamsBuilder) -> None:
    grouped(b).reduce(lambda a, v: {"n": (a["n"] * 2 + v["n"]) % 1000}, store="s").to_stream().to("out")


def shared(b: StreamsBuilder) -> None:
    """One object to begin with for all keys, which the function changes: rows are written before it is changed again."""
    begun: list[int] = []

    def gather(_key: Any, value: Any, so_far: list[int]) -> list[int]:
        so_far.append(value["n"])
        return so_far

    def begin() -> list[int]:
        begun.clear()
        return begun

    grouped(b).aggregate(begin, gather, store="s").to_stream().to("out")


def windowed(b: StreamsBuilder) -> None:
    counted = grouped(b).windowed_by(TimeWindows(10, grace=20)).count(store="s")
    counted.to_stream().map(lambda k, v: (f"{k.key}@{k.start}", v)).to("out", value=Serdes.int64)


keys = st.integers(0, 300) | st.integers(0, 5) | st.sampled_from(["", "\0", "long" * 200])
record = st.tuples(
    st.just("in"),
    st.integers(0, 1),
    keys.map(lambda key: str(key).encode()),
    st.integers(0, 4).map(lambda n: msgspec.json.encode({"n": n})),
    st.integers(0, 40),
    st.sampled_from([None] * 9 + [pack_headers((("h", b"1"),))]),
)
epochs = st.lists(st.lists(record, min_size=1, max_size=60), min_size=1, max_size=4)


@pytest.mark.parametrize("shape", [count, totals, mapped, reduced, shared, windowed], ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("most", [20, 1000])
@trying(4)
@given(given_epochs=epochs)
def test_rows_changelogs_and_state_do_not_depend_on_the_way(shape, most, folders, given_epochs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixed, "MOST", most)
        both_ways(shape, folders, given_epochs, "fail")


@needs_kernels
@pytest.mark.parametrize("shape", [count, totals, reduced])
def test_rows_of_an_epoch_are_sealed_by_column(shape, folders, monkeypatch):
    sealed = []
    seal = RowStore.seal
    monkeypatch.setattr(RowStore, "seal", lambda store: sealed.append(seal(store)) or sealed[-1])
    runs = Runs(shape, folders(), "fail")
    for epoch in range(2):
        seen = runs.epoch([("in", n % 2, b"k%d" % (n * 7 % 50), b'{"n":1}', n, None) for n in range(400)])
        assert {row[0] for row in seen["sinks"]["out", -1]} == {b"k%d" % n for n in range(50)}, epoch
    assert len(sealed) == 4
    assert all(isinstance(writes.writes, SortedRun) for writes in sealed)


@needs_kernels
def test_a_row_that_a_function_changes_when_it_is_no_longer_its_own_may_be_written_as_changed(folders):
    """Nobody else may change an aggregate once it was returned: it may be written at once, or when the batch is through."""
    returned: list[dict[str, int]] = []

    def meddle(_key: Any, value: Any, total: dict[str, int]) -> dict[str, int]:
        for other in returned[-1:]:
            other["n"] += 100
        returned.append({"n": total["n"] + value["n"]})
        return returned[-1]

    def shape(b: StreamsBuilder) -> None:
        grouped(b).aggregate(lambda: {"n": 0}, meddle, store="s").to_stream().to("out")

    seen = Runs(shape, folders(), "fail").epoch([("in", 0, b"k%d" % n, b'{"n":1}', n, None) for n in range(400)])
    assert {row[1] for row in seen["sinks"]["out", -1]} == {b'{"n":1}', b'{"n":101}'}
