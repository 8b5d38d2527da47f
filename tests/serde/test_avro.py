"""Avro: types and schemas, values that fit and those that do not, schemas that have changed."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import fastavro
import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.batch.column import Column
from penstock.errors import DeserializationError, SerializationError, TopologyError
from penstock.serde import Serdes
from penstock.serde.avro_types import avro_schema_of
from penstock.serde.traits import is_stable, kept_classes

int64s = st.integers(-(2**63), 2**63 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
times = st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1))


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(Enum):
    SMALL = 1
    LARGE = 2


class Cat(msgspec.Struct, tag=True):
    name: str


class Dog(msgspec.Struct, tag=True):
    name: str


@dataclass
class Line:
    sku: str
    count: int = 1


class Row(TypedDict):
    name: str


class Tree(msgspec.Struct):
    value: int
    below: list[Tree] = []


@dataclass
class Order:
    id: int
    price: float
    paid: bool
    raw: bytes
    at: datetime
    local: Annotated[datetime, msgspec.Meta(tz=False)]
    day: date
    clock: time
    uuid: UUID
    colour: Colour
    size: Size
    way: Literal["air", "sea"]
    pet: Cat | Dog
    row: Row
    note: str | None = None
    several: int | str | None = 5
    lines: list[Line] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    amounts: dict[str, int] = field(default_factory=dict)


orders = st.builds(
    Order,
    id=int64s,
    price=st.floats(allow_nan=False),
    raw=st.binary(),
    at=times.map(lambda found: found.replace(tzinfo=UTC)),
    local=times,
    day=st.dates(),
    pet=st.builds(Cat, st.text()) | st.builds(Dog, st.text()),
    row=st.fixed_dictionaries({"name": st.text()}),
    several=st.none() | int64s | st.text(),
    lines=st.lists(st.builds(Line, st.text(), int64s), max_size=3),
    amounts=st.dictionaries(st.text(), int64s, max_size=3),
)

RECORD: dict[str, Any] = {
    "type": "record",
    "name": "shop.Item",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "weight", "type": "float", "default": 0},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}, "default": "a"},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}, "default": "\u0000\u0001"},
        {"name": "next", "type": ["null", "shop.Item"], "default": None},
        {
            "name": "tags",
            "type": {"type": "map", "values": {"type": "array", "items": ["null", "string"]}},
            "default": {},
        },
        {
            "name": "cost",
            "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
            "default": None,
        },
    ],
}


def avro_values(schema: Any) -> st.SearchStrategy[Any]:
    """Values of a schema without names."""
    if isinstance(schema, list):
        return st.one_of(*map(avro_values, schema))
    if isinstance(schema, dict):
        if schema["type"] == "array":
            return st.lists(avro_values(schema["items"]), max_size=3)
        return st.dictionaries(st.text(), avro_values(schema["values"]), max_size=3)
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": int32s,
        "long": int64s,
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "string": st.text(),
        "bytes": st.binary(),
    }[schema]


plain_schemas = st.sampled_from(["boolean", "int", "long", "float", "double", "string", "bytes"])
schemas = st.recursive(
    plain_schemas,
    lambda inner: (
        inner.map(lambda of: {"type": "array", "items": of})
        | inner.map(lambda of: {"type": "map", "values": of})
        | plain_schemas.map(lambda of: ["null", of])
    ),
    max_leaves=4,
)


@given(orders)
def test_an_object_of_a_type_comes_back_as_it_was(order: Order) -> None:
    serde = Serdes.avro(Order)
    assert serde.deserialize(serde.serialize(order)) == order


@given(st.data())
def test_a_value_of_any_schema_comes_back_and_by_batch_too(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    serde = Serdes.avro(schema)
    values = data.draw(st.lists(avro_values(schema).filter(lambda value: value is not None), min_size=1, max_size=4))
    written = [serde.serialize(value) for value in values]
    assert [serde.deserialize(one) for one in written] == values
    assert Column(data=pa.array(written, pa.binary()), serde=serde).items == values
    assert Column(values).arrow_of(serde).to_pylist() == written
    assert is_stable(serde)


@given(st.data())
def test_bytes_are_those_of_fastavro(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    value = data.draw(avro_values(schema))
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    assert Serdes.avro(schema).serialize(value) == out.getvalue()


def test_a_type_may_refer_to_itself() -> None:
    serde = Serdes.avro(Tree)
    tree = Tree(1, [Tree(2), Tree(3, [Tree(4)])])
    assert serde.deserialize(serde.serialize(tree)) == tree


def test_the_schema_of_a_type_has_its_defaults() -> None:
    assert avro_schema_of(Line) == {
        "type": "record",
        "name": "Line",
        "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "long", "default": 1}],
    }
    fields = {one["name"]: one for one in avro_schema_of(Order)["fields"]}
    assert fields["note"] == {"name": "note", "type": ["null", "string"], "default": None}
    assert fields["several"] == {"name": "several", "type": ["long", "string", "null"], "default": 5}
    assert fields["lines"]["default"] == []
    assert fields["amounts"]["default"] == {}
    assert fields["colour"]["type"] == {"type": "enum", "name": "Colour", "symbols": ["red", "blue"]}


class Pair(NamedTuple):
    a: int


class Sparse(TypedDict):
    name: NotRequired[str]


class Listed(msgspec.Struct, array_like=True):
    a: int


class Dashed(msgspec.Struct, rename="kebab"):
    two_words: int


def other_line() -> type:
    class Line(msgspec.Struct):
        a: int

    return Line


@pytest.mark.parametrize(
    ("type_", "said"),
    [
        (dict[int, str], "keys are not texts"),
        (tuple[int, str], "value is Tuple"),
        (Decimal, "Decimal without precision"),
        (Any, "value is Any"),
        (Pair, "value is NamedTuple"),
        (Sparse, "value.name may be missing"),
        (Listed, "array_like"),
        (Dashed, "'two-words', which is no Avro name"),
        (list[Line | Any], "Any"),
        (Literal[1, "a"], "Literal of other values"),
        (tuple[Line, ...] | dict[str, other_line()], "second class with the name Line"),  # type: ignore[misc]
        (7, "is not a type"),
    ],
)
def test_a_type_without_a_schema_is_refused_with_its_place(type_: Any, said: str) -> None:
    with pytest.raises(TopologyError, match=r"Serdes\.avro") as error:
        Serdes.avro(type_)
    assert said in str(error.value)


def test_a_schema_may_be_a_dict_a_text_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "item.avsc"
    path.write_text(json.dumps(RECORD, indent=2))
    ways = [Serdes.avro(RECORD), Serdes.avro(json.dumps(RECORD)), Serdes.avro(path), Serdes.avro(str(path))]
    path.unlink()
    for serde in ways:
        assert serde == ways[0]
        assert pickle.loads(pickle.dumps(serde)) == serde
        assert hash(serde) == hash(ways[0])
        assert repr(serde) == "Serdes.avro(shop.Item)"
    item = {"id": 1, "tags": {"a": ["b", None]}, "next": {"id": 2, "cost": Decimal("1.25")}}
    found = pickle.loads(pickle.dumps(ways[0])).deserialize(ways[0].serialize(item))
    assert found["next"]["cost"] == Decimal("1.25")
    assert (found["kind"], found["hash"]) == ("a", b"\0\1")
    assert Serdes.avro("long").deserialize(Serdes.avro("long").serialize(5)) == 5


@pytest.mark.parametrize("serde", [Serdes.avro(Order), Serdes.avro(Line, single_object=True)])
def test_the_serde_of_a_type_pickles_and_comes_back_as_itself(serde: Any) -> None:
    assert pickle.loads(pickle.dumps(serde)) == serde
    assert repr(pickle.loads(pickle.dumps(serde))) == repr(serde)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ('{"type": "record"', "is not JSON"),
        ({"type": "record", "fields": []}, "not an Avro schema"),
        ("lnog", "not an Avro schema"),
        ("nowhere/order.avsc", "cannot be read"),
    ],
)
def test_a_schema_that_is_none_is_refused(given_: Any, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        Serdes.avro(given_)


def test_options_that_exclude_each_other_are_refused() -> None:
    wrong: list[Callable[[], Any]] = [
        lambda: Serdes.avro(Line, older=["long"]),
        lambda: Serdes.avro(Line, writer="long", single_object=True),
        lambda: Serdes.avro(Line, value_type=Line),
    ]
    for make in wrong:
        with pytest.raises(TopologyError, match=r"Serdes\.avro"):
            make()


def test_a_schema_and_a_type_go_together() -> None:
    schema = {
        "type": "record",
        "name": "L",
        "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
    }
    serde = Serdes.avro(schema, value_type=Line)
    assert serde.deserialize(serde.serialize(Line("a", 3))) == Line("a", 3)
    with pytest.raises(SerializationError, match=r"value\['count'\] is 2147483648 \(int\), the schema says int"):
        serde.serialize(Line("a", 2**31))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "x"}, "value['id'] is 'x' (str), the schema says int"),
        ({"id": 1.5}, "value['id'] is 1.5 (float), the schema says int"),
        ({"id": True}, "value['id'] is True (bool), the schema says int"),
        ({"id": 2**31}, "the schema says int"),
        ({"weight": 1e39}, "value['weight'] is 1e+39 (float), the schema says float"),
        ({"kind": "c"}, "the schema says one of a, b"),
        ({"hash": b"abc"}, "the schema says fixed (2 bytes)"),
        ({"next": {"id": None}}, "value['next']['id'] is None (NoneType), the schema says int"),
        ({"next": {}}, "value['next']['id'] is missing, the schema says int and has no default"),
        ({"tags": {"t": ["a", 5]}}, "value['tags']['t'][1] is 5 (int), the schema says string"),
        ({"tags": {5: []}}, "the schema says map (a dict with texts as keys)"),
        ({"wieght": 1}, "value['wieght'] is no field of the record shop.Item"),
        ({"cost": Decimal("1.234")}, "Serdes.avro(shop.Item)"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_field(change: dict[str, Any], said: str) -> None:
    with pytest.raises(SerializationError) as error:
        Serdes.avro(RECORD).serialize({"id": 1, **change})
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("int", 1.5),
        ("long", 2**63),
        ("string", b"a"),
        ("bytes", "YQ=="),
        ("null", 0),
        ("boolean", 1),
        ({"type": "int", "logicalType": "date"}, datetime(2020, 1, 1)),
        ({"type": "long", "logicalType": "timestamp-micros"}, datetime(2020, 1, 1)),
        ({"type": "long", "logicalType": "timestamp-millis"}, "2020-01-01T00:00:00Z"),
        (["int", "string"], 1.5),
        ({"type": "array", "items": "int"}, {"a": 1}),
    ],
)
def test_nothing_is_shortened_or_guessed(schema: Any, value: Any) -> None:
    with pytest.raises(SerializationError, match="the schema says"):
        Serdes.avro(schema).serialize(value)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 3.4028234663852886e38, 1])
def test_a_float_takes_what_it_has(value: float) -> None:
    assert Serdes.avro("float").deserialize(Serdes.avro("float").serialize(value)) == value


@pytest.mark.parametrize("data", [b"", b"\x0e", b"\x0e\x02\x09hi", b"\x0e\x02\x02\xff", b"\x02\x02a\x00"])
def test_bytes_that_are_not_of_the_schema_are_refused(data: bytes) -> None:
    with pytest.raises((EOFError, ValueError, IndexError, DeserializationError)):
        Serdes.avro(Line).deserialize(data)


def test_bytes_that_are_left_over_are_refused() -> None:
    with pytest.raises(DeserializationError, match="1 bytes are left over"):
        Serdes.avro(Line).deserialize(Serdes.avro(Line).serialize(Line("a")) + b"\x00")


LineBefore = msgspec.defstruct("Line", [("sku", str), ("colour", str, "red")])


def test_values_of_an_older_schema_are_read_with_defaults() -> None:
    before = Serdes.avro(LineBefore).serialize(LineBefore("a", "blue"))
    serde = Serdes.avro(Line, writer=avro_schema_of(LineBefore))
    assert serde.deserialize(before) == Line("a", 1)
    assert pickle.loads(pickle.dumps(serde)).deserialize(before) == Line("a", 1)
    with pytest.raises(SerializationError, match="only reads"):
        serde.serialize(Line("a"))


def test_single_objects_of_several_schemas_lie_in_one_topic() -> None:
    old, new = Serdes.avro(LineBefore, single_object=True), Serdes.avro(Line, single_object=True, older=[LineBefore])
    written = [old.serialize(LineBefore("a")), new.serialize(Line("b", 2))]
    assert [new.deserialize(one) for one in written] == [Line("a", 1), Line("b", 2)]
    with pytest.raises(DeserializationError, match=r"no schema with the fingerprint .* older="):
        old.deserialize(written[1])
    with pytest.raises(DeserializationError, match="do not begin with the frame"):
        new.deserialize(Serdes.avro(Line).serialize(Line("b")))
    assert not is_stable(new)


def test_a_single_object_is_framed_as_the_specification_says() -> None:
    """The fingerprint of "int" is 0x7275d51a3f395c8f, in little-endian order (Avro's share/test/data/schema-tests.txt)."""
    assert Serdes.avro("int", single_object=True).serialize(1) == bytes.fromhex("c301 8f5c393f1ad57572 02")


@pytest.mark.parametrize(
    ("writer", "reader", "said"),
    [
        ("long", "int", "written as long and is read as int"),
        (LineBefore, msgspec.defstruct("Line", [("n", int)]), r"value\.n was not written and has no default"),
        (LineBefore, Tree, "was written as record Line and is read as Tree"),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, "written with 2 bytes"),
        ({"type": "array", "items": "string"}, list[int], r"value\[\] was written as string and is read as long"),
        ({"type": "map", "values": "null"}, dict[str, int], r"value\[\] was written as null"),
        ("null", ["int", "string"], "is read as a union without it"),
    ],
)
def test_schemas_that_cannot_be_resolved_are_refused_when_the_serde_is_made(
    writer: Any, reader: Any, said: str
) -> None:
    writer = writer if isinstance(writer, str | dict) else avro_schema_of(writer)
    with pytest.raises(TopologyError, match=said):
        Serdes.avro(reader, writer=writer)


def test_a_number_is_promoted() -> None:
    assert Serdes.avro("double", writer="int").deserialize(b"\x04") == 2.0
    assert Serdes.avro(["null", "long"], writer=["null", "int"]).deserialize(b"\x02\x04") == 2


def test_what_is_relied_on() -> None:
    assert is_stable(Serdes.avro(Line))
    assert not is_stable(Serdes.avro(Order))
    assert not is_stable(Serdes.avro(["int", "string"]))
    assert not is_stable(Serdes.avro({"type": "string", "logicalType": "uuid"}))
    assert not is_stable(Serdes.avro("long", writer="int"))
    assert kept_classes(Serdes.avro(Line)) == frozenset()  # it refuses a Line whose fields do not fit
