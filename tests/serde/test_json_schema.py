"""JSON with a schema: of a type, and given; checked in both directions."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.batch.column import Column
from penstock.errors import DeserializationError, SerializationError, TopologyError
from penstock.serde import Serdes
from penstock.serde.json_schema import schema_of_type
from penstock.serde.traits import is_stable, kept_classes

int64s = st.integers(-(2**63), 2**63 - 1)


class Item(msgspec.Struct):
    sku: Annotated[str, msgspec.Meta(min_length=1)]
    count: Annotated[int, msgspec.Meta(ge=1)] = 1


@dataclass
class Point:
    x: int
    names: list[str]
    y: float | None = None


SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Item",
    "type": "object",
    "properties": {"sku": {"type": "string"}, "counts": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
    "required": ["sku"],
    "additionalProperties": False,
}


@given(st.builds(Point, int64s, st.lists(st.text()), st.none() | st.floats(allow_nan=False, allow_infinity=False)))
def test_an_object_of_a_type_comes_back_as_it_was_and_fits_its_schema(point: Point) -> None:
    serde = Serdes.json_schema(Point)
    data = serde.serialize(point)
    assert serde.deserialize(data) == point
    assert data == Serdes.json_of(Point).serialize(point)
    assert jsonschema_rs.is_valid(schema_of_type(Point), json.loads(data))


@given(st.text(), st.lists(st.integers(0, 2**63 - 1)))
def test_a_value_of_a_schema_comes_back_as_it_was_and_by_batch_too(sku: str, counts: list[int]) -> None:
    serde, value = Serdes.json_schema(SCHEMA), {"sku": sku, "counts": counts}
    data = serde.serialize(value)
    assert serde.deserialize(data) == value
    assert Column(data=[data, data], serde=serde).items == [value, value]
    assert Column([value]).arrow_of(serde).to_pylist() == [data]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Item("", 1), "length >= 1 - at `$.sku`"),
        (Item("a", 0), "`int` >= 1 - at `$.count`"),
        (Item("a", "two"), "Expected `int`, got `str` - at `$.count`"),  # type: ignore[arg-type]
        (Point(1, []), "`sku`"),
    ],
)
def test_an_object_that_does_not_fit_its_type_is_not_written(value: Any, said: str) -> None:
    with pytest.raises(SerializationError, match=r"Serdes\.json_schema\(Item\)") as error:
        Serdes.json_schema(Item).serialize(value)
    assert said in str(error.value)
    assert kept_classes(Serdes.json_schema(Item)) == frozenset()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"counts": []}, 'value: "sku" is a required property'),
        ({"sku": 5}, "value['sku']: 5 is not of type \"string\""),
        ({"sku": "a", "counts": [1, -1]}, "value['counts'][1]: -1 is less than the minimum of 0"),
        ({"sku": "a", "cuonts": []}, "'cuonts'"),
    ],
)
def test_a_value_that_does_not_fit_its_schema_is_refused_with_its_place(value: Any, said: str) -> None:
    serde = Serdes.json_schema(SCHEMA)
    with pytest.raises(SerializationError) as written:
        serde.serialize(value)
    with pytest.raises(DeserializationError) as read:
        serde.deserialize(json.dumps(value).encode())
    assert said in str(written.value)
    assert said in str(read.value)


def test_a_number_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(SerializationError, match="JSON has no nan"):
        Serdes.json_schema(Point).serialize(Point(1, [], float("nan")))


def test_a_schema_may_be_a_dict_a_text_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "item.json"
    path.write_text(json.dumps(SCHEMA))
    ways = [Serdes.json_schema(one) for one in (SCHEMA, json.dumps(SCHEMA), path, str(path))]
    path.unlink()
    for serde in ways:
        assert pickle.loads(pickle.dumps(serde)) == ways[0]
        assert repr(serde) == "Serdes.json_schema(Item)"
        assert is_stable(serde)


def test_the_serde_of_a_type_pickles_as_the_type() -> None:
    serde = Serdes.json_schema(Item)
    again = pickle.loads(pickle.dumps(serde))
    assert again == serde
    assert again != Serdes.json_of(Item)
    assert again.deserialize(again.serialize(Item("a"))) == Item("a")


@pytest.mark.parametrize("given_", [{"type": "strnig"}, "{", object(), 7])
def test_what_is_no_schema_is_refused(given_: Any) -> None:
    with pytest.raises(TopologyError, match=r"Serdes\.json_schema"):
        Serdes.json_schema(given_)
