"""A cache may skip an update of a key, never change the last one; no final result depends on it (promise 6 of the design)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Serdes, SessionWindows, Stores, StreamsBuilder, Suppressed, TimeWindows
from penstock.lane import step_batches
from penstock.testing import TopologyTestDriver

TEXT = {"key": Serdes.string, "value": Serdes.string}
SIZES = (None, 1, 300, 100_000)


def counts(builder):
    words = builder.stream("in", **TEXT).flat_map_values(str.split).group_by(lambda _, word: word, value=Serdes.string)
    words.count(store="s").to_stream().to("out", value=Serdes.int64)


def tables(builder):
    table = builder.table("in", **TEXT, store="rows")
    grouped = table.group_by(lambda key, value: (value, key), **TEXT)
    sizes = grouped.aggregate(
        lambda: 0,
        lambda k, v, n: n + 1,
        lambda k, v, n: n - 1 or None,
        store="s",
        key=Serdes.string,
        value=Serdes.int64,
    )
    # its times are those of the updates that reach it, of which a cache may skip some
    sizes.to_stream().map_values(str).to("out", **TEXT)


def windows(builder):
    counted = (
        builder.stream("in", **TEXT).group_by_key().windowed_by(TimeWindows(10, advance=5, grace=5)).count(store="s")
    )
    counted.to_stream().to("out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.int64)


def sessions(builder):
    counted = builder.stream("in", **TEXT).group_by_key().windowed_by(SessionWindows(3, grace=5)).count(store="s")
    counted.to_stream().to("out", key=Serdes.session_windowed(Serdes.string), value=Serdes.int64)


def final(builder):
    counted = builder.stream("in", **TEXT).group_by_key().windowed_by(TimeWindows(10, grace=2)).count(store="s")
    last = counted.suppress(Suppressed.until_window_closes()).to_stream()
    last.to("out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.int64)


records = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y x", "x x", "z"]), st.integers(0, 40)), max_size=30
)


def run(shape, script, size, cut=8, shards=2):
    builder = StreamsBuilder()
    shape(builder)
    config = {"cache_max_bytes": size}
    with TopologyTestDriver(builder, config=config, shards=shards, auto_commit=False) as driver:
        for at, (key, value, time) in enumerate(script):
            driver.pipe_raw("in", 0, key.encode(), value.encode(), time)
            if at % cut == cut - 1:
                driver.commit()
        driver.commit()
        return driver.all_output().get("out", []), sorted(
            str(row[:2]) if shape is tables else str(row) for row in driver.store_contents("s")
        )


def last(shape, rows):
    """Return the last row of each key; what was deleted may also never have been there."""
    found = {row[0]: row[1:2] if shape is tables else row[1:3] for row in rows}
    return {key: row for key, row in found.items() if row[0] not in (None, b"None")}


@pytest.mark.parametrize("shape", [counts, tables, windows, sessions], ids=lambda f: f.__name__)
@settings(max_examples=12, deadline=None)
@given(script=records)
def test_a_cache_of_any_size_leaves_the_last_values_as_they_are(shape, script):
    each, rows = run(shape, script, 0)
    assert last(shape, each) == last(shape, run(shape, script, 0, cut=1)[0])
    for size in SIZES:
        out, kept = run(shape, script, size)
        assert last(shape, out) == last(shape, each)
        assert kept == rows
        assert len(out) <= len(each)


@settings(max_examples=12, deadline=None)
@given(script=records)
def test_final_results_do_not_depend_on_a_cache(script):
    expected = run(final, script, None)
    assert all(run(final, script, size) == expected for size in (0, *SIZES))


def test_without_a_cache_every_update_leaves_and_with_a_small_one_as_soon_as_it_is_full(monkeypatch):
    monkeypatch.setattr(
        step_batches, "FEW", 1 << 40
    )  # one by one: a batch is as large as it is, however small the cache
    script = [("a", "x x x x x x x x", 0), ("a", "x x x x x x x x", 1)]
    by_size = {size: [int.from_bytes(row[1], "big") for row in run(counts, script, size)[0]] for size in (None, 0)}
    assert by_size == {None: [16], 0: list(range(1, 17))}
    many = [("a", f"w{n:04}", 0) for n in range(64)] * 2
    out, _ = run(counts, many, 640, cut=1000, shards=1)
    assert 64 < len(out) == 128  # 13 bytes a row: all keys have left once before they come again
    assert len(run(counts, many, 64_000, cut=1000, shards=1)[0]) == 64


def test_a_row_that_is_written_again_takes_its_place_in_the_cache():
    out, _ = run(counts, [("a", "same", 0)] * 500, 640, cut=1000, shards=1)
    assert [int.from_bytes(row[1], "big") for row in out] == [500]


def test_a_store_that_is_not_cached_and_one_whose_cache_is_empty_say_the_same():
    script = [("a", "x y", 0), ("b", "y y", 2), ("a", "z", 1)]

    def uncached(builder):
        words = (
            builder.stream("in", **TEXT).flat_map_values(str.split).group_by(lambda _, word: word, value=Serdes.string)
        )
        words.count(store=Stores.key_value("s", cached=False)).to_stream().to("out", value=Serdes.int64)

    assert run(counts, script, 0, cut=100) == run(uncached, script, None, cut=100)
