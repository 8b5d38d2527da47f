"""Columns of typed JSON are read and written at a time as they would be value by value, or not at all."""

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.batch.column import Column
from penstock.serde import Serdes
from penstock.serde.json_lines import JsonLines, json_lines


class Node(msgspec.Struct):
    n: int = 0
    text: str | None = None
    below: list[Any] = []


plain = st.builds(
    Node, st.integers(-(2**40), 2**40), st.none() | st.text(), st.lists(st.integers() | st.text(), max_size=2)
)
#: pieces of JSON and what is none: two rows may make one value between them, or one row two
torn = st.sampled_from(
    [
        b'{"n":1}', b'{ "n" : 2 }', b'{"n":1}{"n":2}', b'{"n":1} {"n":2}', b'{"n":1}\n{"n":2}', b"", b" ", b"\n", b"{}", b"{", b"}",
        b'{"below":[{}', b"{}]}", b',"n":3}', b'{"n":1', b'{"text":"}', b'{"text":"\n"}', b'{"text":"a\\nb"}', b'"}', b"null",
        b"[]", b'{"n":"x"}', b'{"text":"\xff"}', b'{"other":{"n":[1]}}', b'{"below":[{"a":1}', b'{"b":2}]}',
    ]
)  # fmt: skip


def one_by_one(rows: list[bytes]) -> list[Node] | None:
    try:
        return [msgspec.json.decode(row, type=Node) for row in rows]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


@example([b'{"n":1}{"n":2}', b"", b"{}"])
@example([b'{"n":1}{"below":[', b"{}]}"])
@example([b'{"n":1}{"below":[{}', b"]}"])
@example([b'{"n":1}{"below":[{}', b"{}]}"])
@given(st.lists(torn, min_size=1, max_size=8) | st.lists(plain.map(msgspec.json.encode), min_size=1, max_size=8))
def test_what_is_read_at_a_time_is_what_each_row_says(rows):
    try:
        found = JsonLines(Node).decode(pa.array(rows, pa.binary()))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        assert one_by_one(rows) is None
        return
    if found is not None:
        assert found == one_by_one(rows)


@given(st.lists(plain.map(msgspec.json.encode), min_size=3, max_size=8))
def test_objects_are_read_at_a_time_also_from_a_part_of_a_column(rows):
    column = pa.array(rows, pa.binary())
    assert JsonLines(Node).decode(column) == one_by_one(rows)
    assert JsonLines(Node).decode(column[1:-1]) == one_by_one(rows[1:-1])


def test_the_rows_of_a_part_are_looked_at_and_no_others():
    column = pa.array([b"{}", b"{}", b'{"n":1}{"n":2}', b" ", b"{}", b"{}"], pa.binary())
    assert JsonLines(Node).decode(column[2:4]) is None
    assert JsonLines(Node).decode(column[4:]) == [Node(), Node()]


values = st.lists(
    plain
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.none()
    | st.just(msgspec.Raw(b"[1,\n2]")),
    max_size=8,
)


@given(values)
def test_what_is_written_at_a_time_is_what_each_value_gives(items):
    serde = Serdes.json_of(Node)
    wanted = [None if item is None else serde.serialize(item) for item in items]
    assert Column(items).arrow_of(serde).to_pylist() == wanted
    found = JsonLines(Node).encode(items)
    if found is not None:
        assert found.to_pylist() == wanted
        found.validate(full=True)


def test_a_value_that_cannot_be_written_raises():
    with pytest.raises(TypeError):
        Column([Node(), object()]).arrow_of(Serdes.json_of(Node))


def test_only_typed_json_has_lines():
    assert json_lines(Serdes.json) is None
    assert json_lines(Serdes.string) is None
    assert json_lines(Serdes.json_of(Node)) is json_lines(Serdes.json_of(Node))
