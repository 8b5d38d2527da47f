"""A step without state: what comes of the first rows has left before the last ones are read, and no cut of them changes it."""

import pyarrow as pa
import pytest
from both_ways import Runs, records, trying
from hypothesis import given
from hypothesis import strategies as st

from penstock.lane import run
from penstock.protocol.envelope import SINK


def mapped(b):
    b.stream("in").filter(lambda _, value: value["n"] != 1).map_values(lambda value: {"n": value["n"] + 1}).to("out")


def merged(b):
    b.stream("in").merge(b.stream("side")).to("out")


def keyed(b):
    b.stream("in").select_key(lambda key, value: str(value["n"])).group_by_key().count(store="s").to_stream().to("out")


def cut_into(monkeypatch, sizes):
    """Let the first step read its rows in batches of these sizes, over and over."""
    step = run.run_step

    def cut(worker, request, level, task, batches, moves):
        if level == 0 and batches:
            table, batches, begin, turn = pa.Table.from_batches(batches), [], 0, 0
            while begin < len(table):
                batches += table.slice(begin, sizes[turn % len(sizes)]).combine_chunks().to_batches()
                begin, turn = begin + sizes[turn % len(sizes)], turn + 1
        return step(worker, request, level, task, batches, moves)

    monkeypatch.setattr("both_ways.run_step", cut)


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@pytest.mark.parametrize("shape", [mapped, merged, keyed], ids=lambda shape: shape.__name__)
@trying(25)
@given(epochs=st.lists(records, min_size=1, max_size=3), sizes=st.lists(st.integers(1, 7), min_size=1, max_size=3))
def test_rows_drops_and_times_do_not_depend_on_the_batches_that_are_read(shape, policy, folders, epochs, sizes):
    epochs = [sorted(epoch, key=lambda record: record[:2]) for epoch in epochs]  # as they are read: range by range
    whole = Runs(shape, folders(), policy)
    seen = [whole.epoch(epoch) for epoch in epochs if epoch]
    with pytest.MonkeyPatch.context() as patch:
        cut_into(patch, sizes)
        parts = Runs(shape, folders(), policy)
        assert [parts.epoch(epoch) for epoch in epochs if epoch] == seen


def leaving(shape, folders, monkeypatch, *, topics=("in",)):
    """Return, in turn, 'read' for each batch of a step and 'row' for each batch of rows for a sink that leaves it."""
    told = []
    step = run.run_step

    def watched(worker, request, level, task, batches, moves):
        table = pa.Table.from_batches(batches)

        def coming():
            for begin in range(0, len(table), 10):
                told.append("read")
                yield from table.slice(begin, 10).combine_chunks().to_batches()

        for batch in step(worker, request, level, task, coming() if level == 0 else batches, moves):
            told.extend(["row"] * int((batch["kind"].to_numpy() == SINK).any()))
            yield batch

    monkeypatch.setattr("both_ways.run_step", watched)
    monkeypatch.setattr("penstock.lane.output.MANY", 1)
    rows = [(topic, 0, b"k%d" % n, b'{"n":2}', n, None) for topic in topics for n in range(30)]
    Runs(shape, folders(), "fail").epoch(rows)
    return told


def test_rows_of_one_topic_leave_before_the_next_ones_are_read(folders, monkeypatch):
    assert leaving(mapped, folders, monkeypatch) == ["read", "row"] * 3


@pytest.mark.parametrize(("shape", "topics"), [(merged, ("in", "side")), (keyed, ("in",))])
def test_rows_of_several_topics_and_records_that_are_counted_wait_for_each_other(shape, topics, folders, monkeypatch):
    told = leaving(shape, folders, monkeypatch, topics=topics)
    assert "row" in told
    assert "read" not in told[told.index("row") :]
