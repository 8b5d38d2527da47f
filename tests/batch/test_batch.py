"""Columns: read when somebody asks, in the order in which they are asked for, and never unread."""

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from penstock import Serde, Serdes
from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.fallback import Undecodable
from penstock.batch.provenance import provenance_of


class Point(msgspec.Struct, frozen=True):
    x: int


POINTS = Serdes.json_of(Point)
BACKWARDS = np.array([2, 1, 0])


def column(*rows, serde=POINTS, told=None):
    return Column(data=pa.array(rows, pa.binary()), serde=serde, on_decode=told)


def test_items_are_read_in_the_order_in_which_they_are_asked_for():
    order = []
    serde = Serde(lambda item: item, lambda data: order.append(data) or data)
    rows = b"a", b"b", b"c"
    assert column(*rows, serde=serde).items_at(BACKWARDS, kept=False) == [b"c", b"b", b"a"]
    assert order == [b"c", b"b", b"a"]
    order.clear()
    kept = column(*rows, serde=serde)
    assert kept.items_at(BACKWARDS) == [b"c", b"b", b"a"]
    assert kept.items_at(BACKWARDS[:1], kept=False) == [b"c"]
    assert order == [b"a", b"b", b"c"]  # once


def test_of_some_places_all_items_are_read_and_kept():
    told = []
    some = column(b'{"x":1}', b'{"x":2}', b'{"x":3}', told=told.append)
    assert some.items_at(BACKWARDS[:2], kept=False) == [Point(3), Point(2)]
    assert told == ["operators", "decode"]
    assert some.items == [Point(1), Point(2), Point(3)]
    assert told == ["operators", "decode"]


@pytest.mark.parametrize("serde", [Serdes.json, Serdes.json_of(Point | None)], ids=["json", "typed"])
def test_a_null_of_json_is_known_of_however_it_was_read(serde):
    values = column(b'{"x":1}', b"null", b'{"x":3}', serde=serde)
    assert values.items_at(BACKWARDS, kept=False)[1] is None
    assert values.has_nulls
    assert column(b'{"x":1}', b"null", serde=serde, told=lambda phase: None).has_nulls


def test_what_cannot_be_read_is_found_by_whoever_asks_and_at_last_if_nobody_does():
    def broken():
        return column(b'{"x":1}', b"{", b'{"x":3}', told=lambda phase: None)

    for ask in (
        lambda values: values.items,
        lambda values: values.items_at(BACKWARDS, kept=False),
        lambda values: values.has_nulls,
        lambda values: values.pick([0]),
        lambda values: values.check(),
        lambda values: Batch(column(b"k"), values, np.array([1]), None, provenance_of([])).check(),
        lambda values: Batch(values, column(b"k"), np.array([1]), None, provenance_of([])).check(),
    ):
        with pytest.raises(Undecodable):
            ask(broken())
    assert broken().arrow_of(POINTS, read=True).to_pylist()[1] == b"{"


def test_what_was_read_is_not_read_again_to_be_checked():
    told = []
    values = column(b'{"x":1}', b'{"x":2}', b'{"x":3}', told=told.append)
    values.items_at(BACKWARDS, kept=False)
    values.check()
    assert not values.has_nulls
    assert told == ["operators", "decode"]
