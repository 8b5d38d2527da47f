"""Protobuf: messages, their unknown fields, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.api_pb2 import Method
from google.protobuf.descriptor_pb2 import UninterpretedOption
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.type_pb2 import Field
from google.protobuf.wrappers_pb2 import DoubleValue, Int32Value, StringValue
from hypothesis import given
from hypothesis import strategies as st

from penstock.batch.column import Column
from penstock.errors import DeserializationError, SerializationError, TopologyError
from penstock.serde import Serdes
from penstock.serde.traits import is_stable

fields = st.builds(
    Field,
    name=st.text(),
    number=st.integers(-(2**31), 2**31 - 1),
    packed=st.booleans(),
    oneof_index=st.integers(0, 100),
    default_value=st.text(),
)


@given(st.lists(fields, min_size=1, max_size=4))
def test_a_message_comes_back_as_it_was_and_by_batch_too(values: list[Field]) -> None:
    serde = Serdes.protobuf(Field)
    written = [serde.serialize(value) for value in values]
    assert [serde.deserialize(one) for one in written] == values
    assert [value.SerializeToString(deterministic=True) for value in values] == written
    assert Column(data=pa.array(written, pa.binary()), serde=serde).items == values
    assert Column(values).arrow_of(serde).to_pylist() == written


@given(st.dictionaries(st.text(), st.text() | st.booleans() | st.lists(st.text(), max_size=2), max_size=5))
def test_equal_messages_have_equal_bytes_in_whatever_order_their_maps_were_filled(entries: dict[str, Any]) -> None:
    serde = Serdes.protobuf(Struct)
    one, other = Struct(), Struct()
    one.update(entries)
    other.update(dict(reversed(entries.items())))
    assert serde.serialize(one) == serde.serialize(other)
    assert serde.serialize(serde.deserialize(serde.serialize(one))) == serde.serialize(one)
    assert is_stable(serde)


@given(fields)
def test_fields_that_the_class_does_not_know_are_kept(value: Field) -> None:
    """Records of a newer schema pass through an older program, and come to a newer one whole."""
    newer, older = Serdes.protobuf(Field), Serdes.protobuf(Int32Value)
    passed = older.serialize(older.deserialize(newer.serialize(value)))
    assert newer.deserialize(passed) == value


def test_the_serde_pickles_as_its_class() -> None:
    serde = Serdes.protobuf(StringValue)
    again = pickle.loads(pickle.dumps(serde))
    assert again == serde
    assert hash(again) == hash(serde)
    assert repr(again) == "Serdes.protobuf(google.protobuf.StringValue)"
    assert again.deserialize(again.serialize(StringValue(value="a"))).value == "a"
    assert serde != Serdes.protobuf(DoubleValue)


@pytest.mark.parametrize("value", ["text", {"value": "a"}, DoubleValue(value=1)])
def test_a_value_of_another_class_is_refused(value: Any) -> None:
    with pytest.raises(SerializationError, match=rf"\({type(value).__name__}\), not such a message"):
        Serdes.protobuf(StringValue).serialize(value)


def test_a_message_without_its_required_fields_is_refused_in_both_directions() -> None:
    serde = Serdes.protobuf(UninterpretedOption.NamePart)
    with pytest.raises(SerializationError, match="no value: name_part, is_extension"):
        serde.serialize(UninterpretedOption.NamePart())
    with pytest.raises(DeserializationError, match="missing: name_part, is_extension"):
        serde.deserialize(b"")


@pytest.mark.parametrize("data", [b"\n\x05ab", b"\xff", b"\n\x01\xff"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(DeserializationError, match=r"no message of Serdes\.protobuf\(google\.protobuf\.Method\)"):
        Serdes.protobuf(Method).deserialize(data)


@pytest.mark.parametrize("given_", [str, Message, "Order", StringValue(), None])
def test_what_is_no_message_class_is_refused(given_: Any) -> None:
    with pytest.raises(TopologyError, match="not a message class"):
        Serdes.protobuf(given_)
