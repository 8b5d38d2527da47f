"""Results of asynchronous calls do not depend on lanes, partitions, cuts, or on how long each call takes (promises 4 and 6).

Calls end in an order that has nothing to do with that of the records: a coroutine goes round the loop as often as the value's hash
says, or in threads whose turns nobody knows.
"""

import asyncio
from zlib import crc32

import pytest
from hypothesis import given
from tests.properties.test_cuts import TEXT, append, check, few, in_order, kv, out_of_order

from penstock import Serdes, Stores, TimeWindows


async def looked_up(key, value):
    for _ in range(crc32(f"{key}{value}".encode()) % 9):
        await asyncio.sleep(0)
    return None if value is None else f"{value}!"


def in_threads(value):
    return None if value is None else f"{value}!"


def answers(stream):
    return stream.map_values_async(looked_up, with_key=True, concurrency=5, value=Serdes.string)


def aggregate(builder, cached):
    grouped = answers(builder.stream("a", **TEXT)).group_by_key(**TEXT)
    grouped.aggregate(str, append, store=kv("s", cached)).to_stream().to("out", **TEXT)


def aggregate_in_threads(builder, cached):
    grouped = builder.stream("a", **TEXT).map_values_async(in_threads, concurrency=3).group_by_key(**TEXT)
    grouped.aggregate(str, append, store=kv("s", cached)).to_stream().to("out", **TEXT)


def twice(builder, cached):
    grouped = answers(answers(builder.stream("a", **TEXT)).filter(lambda key, value: "v0" not in value))
    grouped.group_by_key(**TEXT).aggregate(str, append, store=kv("s", cached)).to_stream().to("out", **TEXT)


def after_state(builder, cached):
    table = builder.stream("a", **TEXT).group_by_key().aggregate(str, append, store=kv("s", cached))
    answers(table.to_stream()).to("out", **TEXT)


def tumbling(builder, cached):
    store = Stores.window("s", 15, 10, key=Serdes.string, value=Serdes.string, cached=cached)
    windowed = answers(builder.stream("a", **TEXT)).group_by_key(**TEXT).windowed_by(TimeWindows(10, grace=5))
    counted = windowed.aggregate(str, append, store=store)
    counted.to_stream().to("out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.string)


def windowed_keys(builder, cached):
    """The key is of a window: its shard is that of the inner key, and must still be after the calls."""
    store = Stores.window("w", 100_000, 10, key=Serdes.string, value=Serdes.string, cached=False)
    counted = (
        builder.stream("a", **TEXT).group_by_key().windowed_by(TimeWindows(10)).aggregate(str, append, store=store)
    )
    joined = answers(counted.to_stream()).left_join(counted, lambda value, row: value + str(row is not None))
    joined.to("out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.string)


def rekeyed_before(builder, cached):
    moved = builder.stream("a", **TEXT).select_key(lambda key, value: f"k{value[1:]}" if value else None)
    answers(moved).group_by_key(**TEXT).aggregate(str, append, store=kv("s", cached)).to_stream().to("out", **TEXT)


def rekeyed_after(builder, cached):
    grouped = answers(builder.stream("a", **TEXT)).group_by(lambda key, value: value, **TEXT)
    grouped.count(store=kv("s", cached, Serdes.int64)).to_stream().to("out", key=Serdes.string, value=Serdes.int64)


def table_join(builder, cached):
    table = builder.table("b", **TEXT, store=kv("t", cached))
    answers(builder.stream("a", **TEXT)).left_join(table, lambda value, row: f"{value}/{row}").to("out", **TEXT)


def one_side_of_a_merge(builder, cached):
    merged = answers(builder.stream("a", **TEXT)).merge(builder.stream("b", **TEXT))
    merged.group_by_key(**TEXT).aggregate(str, append, store=kv("s", cached)).to_stream().to("out", **TEXT)


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("topology", [aggregate, aggregate_in_threads, twice, after_state], ids=lambda f: f.__name__)
@few
@given(script=out_of_order())
def test_calls_before_and_after_state(topology, cached, script):
    check(topology, cached, script)


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
@few
@given(script=out_of_order())
def test_windows_drop_the_same_late_records_behind_calls(cached, script):
    check(tumbling, cached, script, partitions=(1,))


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("topology", [rekeyed_before, rekeyed_after, table_join], ids=lambda f: f.__name__)
@few
@given(script=in_order(nulls=True))
def test_calls_before_and_after_a_re_key_and_in_a_join(topology, cached, script):
    script = [step for step in script if topology is table_join or step[0] == "a"] or [("a", "k0", "v1", 0)]
    check(topology, cached, script)


@few
@given(script=in_order())
def test_keys_of_windows_and_merged_streams(script):
    check(windowed_keys, False, [step for step in script if step[0] == "a"] or [("a", "k0", "v1", 0)])
    check(one_side_of_a_merge, False, script)
