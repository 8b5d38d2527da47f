"""Windows by column, of records as the benchmark has them: windows and segments open and expire from epoch to epoch."""

import random
from typing import Any

import pytest
from both_ways import Runs, both_ways, trying, watch_columns
from hypothesis import given
from hypothesis import strategies as st

from penstock import Serdes, Stores, StreamsBuilder
from penstock.protocol.envelope import pack_headers
from penstock.windows import TimeWindows

WINDOWS = TimeWindows(60_000, grace=20_000)


def counted(b: StreamsBuilder) -> None:
    """Windowed keys go to the partitions of their keys."""
    counts = b.stream("in", key=Serdes.string, value=Serdes.bytes).group_by_key().windowed_by(WINDOWS).count(store="s")
    counts.to_stream().to("out", key=Serdes.windowed(Serdes.string, 60_000), value=Serdes.int64)


def listed(b: StreamsBuilder) -> None:
    """A store with a retention of its own, and values that the serde changes between two records of a window."""
    store = Stores.window("s", retention=150_000, size=60_000, key=Serdes.string, value=Serdes.json)
    lists = (
        b.stream("in", key=Serdes.string, value=Serdes.json)
        .group_by_key()
        .windowed_by(WINDOWS)
        .aggregate(tuple, lambda k, v, a: (type(a).__name__, *a[-2:], v["n"]), store=store)
    )
    lists.to_stream().map(lambda k, v: (k.key, [k.start, v])).to("out")


def hopping(b: StreamsBuilder) -> None:
    """Three windows for each record, of which some may be closed and others not."""
    windows = TimeWindows(60_000, advance=20_000, grace=10_000)
    counts = b.stream("in", key=Serdes.string, value=Serdes.bytes).group_by_key().windowed_by(windows).count(store="s")
    counts.to_stream().to("out", key=Serdes.windowed(Serdes.string, 60_000), value=Serdes.int64)


def disorder(seed: int, epochs: int = 5, records: int = 400) -> list[list[Any]]:
    """Return epochs of records of which each opens some windows and closes others; a few are behind, some by too much."""
    rng, drawn = random.Random(seed), []
    for number in range(epochs * records):
        behind = rng.choices([0, rng.randrange(15_000), rng.randrange(200_000)], [90, 9, 1])[0]
        time = max(0, 500 * number - behind)
        headers = pack_headers((("h", b"1"),)) if rng.random() < 0.1 else None
        key = b"k%d" % rng.randrange(30)
        ahead = int(key < b"k2")  # some keys have a partition of their own, and it runs ahead of the other
        drawn.append(("in", ahead, key, b'{"n":%d}' % rng.randrange(5), time + 30_000 * ahead, headers))
    return [drawn[at : at + records] for at in range(0, len(drawn), records)]


@pytest.mark.parametrize("shape", [counted, listed, hopping], ids=lambda shape: shape.__name__)
@trying(5)
@given(seed=st.integers(0, 1 << 30))
def test_windows_that_open_and_expire(shape, folders, seed):
    both_ways(shape, folders, disorder(seed), "fail")


@pytest.mark.parametrize("shape", [counted, listed], ids=lambda shape: shape.__name__)
def test_records_that_are_behind_go_by_column_and_late_ones_are_dropped(shape, folders, monkeypatch):
    taken = watch_columns(monkeypatch)
    runs = Runs(shape, folders(), "fail")
    epochs = disorder(7)
    seen = [runs.epoch(epoch) for epoch in epochs]
    assert not any("failed" in epoch for epoch in seen), seen
    assert taken
    assert all(taken)
    times = {place: max(r[4] for epoch in epochs for r in epoch if r[:2] == place) for place in (("in", 0), ("in", 1))}
    assert seen[-1]["reached"] == times
    late = sum(count for epoch in seen for (_, reason), count in epoch["dropped"].items() if reason == "late_window")
    updates = sum(len(rows) for epoch in seen for rows in epoch["sinks"].values())
    assert 0 < late < 2000 * 0.02
    assert 4 * 30 < updates < 1000


@pytest.mark.parametrize(("time", "late"), [(79_999, 0), (80_000, 4)])
def test_a_window_is_closed_once_its_end_and_the_grace_have_passed(folders, monkeypatch, time, late):
    taken = watch_columns(monkeypatch)
    old = [("in", 0, b"a", b"", at, None) for at in (0, 10, 59_999, 3)]
    seen = Runs(counted, folders(), "fail").epoch(
        [("in", 0, b"a", b"", 60_000, None), *old, ("in", 0, b"a", b"", time, None), *old]
    )
    assert taken == [True]
    assert sum(seen["dropped"].values()) == late
    (rows,) = seen["sinks"].values()
    windowed = Serdes.windowed(Serdes.string, 60_000)
    counts = {windowed.deserialize(key).start: (Serdes.int64.deserialize(count), at) for key, count, at, _ in rows}
    assert counts == {0: (8 - late, 59_999), 60_000: (2, time)}


def test_records_of_several_windows_go_by_column_and_each_closed_window_is_counted(folders, monkeypatch):
    taken = watch_columns(monkeypatch)
    records = [("in", 0, b"a", b"", time, None) for time in (0, 45_000, 90_000, 45_000)]
    seen = Runs(hopping, folders(), "fail").epoch(records)
    assert taken == [True]
    # the last record is late for [0, 60,000) and [20,000, 80,000), not for [40,000, 100,000)
    assert sum(seen["dropped"].values()) == 2
    (rows,) = seen["sinks"].values()
    windowed = Serdes.windowed(Serdes.string, 60_000)
    counts = [(windowed.deserialize(key).start, Serdes.int64.deserialize(count)) for key, count, _, _ in rows]
    assert counts == [(0, 2), (20_000, 1), (60_000, 1), (80_000, 1), (40_000, 3)]


def test_a_record_of_very_many_windows_goes_alone(folders, monkeypatch):
    def many(b: StreamsBuilder) -> None:
        windows = TimeWindows(1700, advance=100)
        b.stream("in", key=Serdes.string, value=Serdes.bytes).group_by_key().windowed_by(windows).count(store="s")

    taken = watch_columns(monkeypatch)
    with pytest.raises(pytest.fail.Exception, match="one by one"):
        Runs(many, folders(), "fail").epoch([("in", 0, b"a", b"", time, None) for time in range(9)])
    assert taken == []
