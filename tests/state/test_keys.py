"""The formats of keys and values are those of Kafka Streams, byte for byte (golden/state.json comes from Java)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.state import keys, positions

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "state.json").read_text())
FORMATS, CHANGELOGS = GOLDEN["formats"], GOLDEN["changelogs"]


def unhex(data: str | None) -> bytes | None:
    return None if data is None else bytes.fromhex(data)


@pytest.mark.parametrize("case", FORMATS["window_key"])
def test_window_keys_equal_those_of_java(case):
    key, data = bytes.fromhex(case["key"]), bytes.fromhex(case["hex"])
    assert keys.window_key(key, case["start"], case["sequence"]) == data
    assert keys.parse_window_key(data) == (key, case["start"], case["sequence"])


@pytest.mark.parametrize("case", FORMATS["session_key"])
def test_session_keys_equal_those_of_java(case):
    key, data = bytes.fromhex(case["key"]), bytes.fromhex(case["hex"])
    assert keys.session_key(key, case["start"], case["end"]) == data
    assert keys.parse_session_key(data) == (key, case["start"], case["end"])


@pytest.mark.parametrize("case", FORMATS["grace_key"])
def test_grace_join_keys_equal_those_of_java(case):
    key, data = bytes.fromhex(case["key"]), bytes.fromhex(case["hex"])
    assert keys.grace_key(key, case["start"], case["sequence"]) == data
    assert keys.parse_grace_key(data) == (key, case["start"], case["sequence"])


@pytest.mark.parametrize("case", FORMATS["join_side_key"])
def test_join_side_keys_equal_those_of_java(case):
    key, data = bytes.fromhex(case["key"]), bytes.fromhex(case["hex"])
    assert keys.join_side_key(case["timestamp"], case["left"], key) == data
    assert keys.parse_join_side_key(data) == (case["timestamp"], case["left"], key)


@pytest.mark.parametrize("case", FORMATS["join_side_value"])
def test_join_side_values_equal_those_of_java(case):
    value, data = bytes.fromhex(case["value"]), bytes.fromhex(case["hex"])
    assert keys.join_side_value(case["left"], value) == data
    assert keys.parse_join_side_value(data) == (case["left"], value)


@pytest.mark.parametrize("case", FORMATS["timestamped"])
def test_timestamped_values_equal_those_of_java(case):
    value, data = bytes.fromhex(case["value"]), bytes.fromhex(case["hex"])
    assert keys.timestamped(value, case["timestamp"]) == data
    assert (keys.unpack_time(data), data[8:]) == (case["timestamp"], value)


@pytest.mark.parametrize("case", FORMATS["list"])
def test_lists_equal_those_of_java(case):
    items, data = [unhex(item) for item in case["items"]], bytes.fromhex(case["hex"])
    assert keys.pack_list(items) == data
    assert keys.parse_list(data) == items


@pytest.mark.parametrize("case", FORMATS["buffer_row"])
def test_buffer_rows_equal_those_of_java(case):
    *coordinates, headers = case["context"]
    context = keys.BufferContext(*coordinates, tuple((name, unhex(value)) for name, value in headers))
    row = keys.BufferRow(context, unhex(case["prior"]), unhex(case["old"]), unhex(case["new"]))
    data = bytes.fromhex(case["hex"])
    assert keys.pack_buffer_row(row, case["time"]) == data
    assert keys.parse_buffer_row(data) == (row, case["time"])


def test_the_suppress_changelog_of_kafka_is_read_and_written_again():
    rows = CHANGELOGS["suppress"]["rows"]
    assert [row for row in rows if row[1] is not None]
    for _, value, _, headers in rows:
        if value is None:
            assert headers == []
            continue
        assert tuple((name, unhex(header)) for name, header in headers) == keys.SUPPRESS_HEADERS
        row, time = keys.parse_buffer_row(bytes.fromhex(value))
        assert row.context.topic == "in"
        assert keys.pack_buffer_row(row, time).hex() == value


def test_the_grace_join_changelog_of_kafka_is_read_and_written_again():
    for key, value, _, headers in CHANGELOGS["grace_join"]["rows"]:
        assert keys.grace_key(*keys.parse_grace_key(bytes.fromhex(key))).hex() == key
        assert headers == []
        if value is not None:
            row, time = keys.parse_buffer_row(bytes.fromhex(value))
            assert (row.prior, row.old, time) == (None, None, 0)
            assert keys.pack_buffer_row(row, time).hex() == value


def test_the_outer_join_changelog_of_kafka_is_read_and_written_again():
    for key, value, _, _ in CHANGELOGS["j-outer-shared-join-store"]["rows"]:
        timestamp, left, raw = keys.parse_join_side_key(bytes.fromhex(key))
        assert keys.join_side_key(timestamp, left, raw).hex() == key
        if value is not None:
            items = keys.parse_list(bytes.fromhex(value))
            assert {keys.parse_join_side_value(item)[0] for item in items if item is not None} == {left}
            assert keys.pack_list(items).hex() == value


times = st.integers(0, 2**63 - 1)
pairs = st.tuples(times, times)


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (positions.WINDOW, times),
        (positions.DUPLICATES, st.tuples(times, st.integers(0, 2**31 - 1))),
        (positions.SESSION, pairs),
    ],
)
@given(data=st.data())
def test_positions_survive_both_layouts_and_sort_as_their_bytes_do(kind, found, data):
    key = data.draw(st.binary(max_size=6))
    one, other = data.draw(found), data.draw(found)
    row = key + kind.suffix(one)
    assert kind.parse(row) == (key, one)
    assert len(row) == len(key) + kind.suffix_size
    assert kind.parse_by_time(kind.by_time(key, one)) == (key, one)
    assert (one < other) == (row < key + kind.suffix(other))
    assert kind.first(kind.time(one)) <= one <= kind.last(kind.time(one))
    assert keys.unpack_time(kind.by_time(key, one)) == kind.time(one)


@given(st.integers(0, 1), times, st.binary(max_size=6))
def test_timer_rows_survive(domain, timestamp, key):
    assert keys.parse_timer_key(keys.timer_key(domain, timestamp, key)) == (domain, timestamp, key)
