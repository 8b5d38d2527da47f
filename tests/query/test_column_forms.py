"""Bytes are shown as the serde that wrote them would read them."""

import pickle
from base64 import b64encode
from uuid import UUID

import pyarrow as pa
import pytest
from google.protobuf.type_pb2 import Field

from penstock import Serdes
from penstock.errors import ConfigError, StoreError
from penstock.sql.column_forms import PICKLED, ColumnForm, default_form, form_of, shown

VALUES = {
    "string": "élan",
    "json": {"n": [1, None]},
    "int32": -5,
    "int64": 2**40,
    "float32": 0.5,
    "float64": 0.1,
    "boolean": True,
    "uuid": UUID(int=7),
    "bytes": b"\xff\x00",
}


@pytest.mark.parametrize("name", VALUES)
def test_a_column_of_a_built_in_serde_holds_its_values(name):
    value = VALUES[name]
    data = getattr(Serdes, name).serialize(value)
    form = form_of(getattr(Serdes, name), "value")
    found = form.decode(pa.array([b"x" * len(data), data, data])[1:])
    wanted = {"json": '{"n":[1,null]}', "uuid": str(value)}.get(name, value)
    assert found.to_pylist() == [wanted, wanted]
    assert found.type == form.arrow_type
    assert form == form_of(name, "value") == default_form(f"Serdes.{name}")


def test_values_of_a_serde_of_the_users_are_json():
    form = form_of(Serdes.pickle, "value")
    found = form.decode(pa.array([Serdes.pickle.serialize((1, {"at": UUID(int=0)}))]))
    assert found.to_pylist() == ['[1,{"at":"00000000-0000-0000-0000-000000000000"}]']


def test_values_with_a_schema_are_json():
    for serde, value, wanted in [
        (Serdes.avro({"type": "array", "items": "long"}), [1, 2], "[1,2]"),
        (Serdes.protobuf(Field), Field(name="n", number=3), '{"number":3,"name":"n"}'),
        (Serdes.json_schema(list[int]), [1, 2], "[1,2]"),
    ]:
        found = form_of(serde, "value").decode(pa.array([serde.serialize(value)]))
        assert found.to_pylist() == [wanted]


def test_nothing_is_unpickled_unless_it_is_asked_for():
    assert default_form("Serdes.pickle") == ColumnForm("bytes")


def test_a_pickled_serde_comes_back():
    said = PICKLED + b64encode(pickle.dumps(Serdes.windowed(Serdes.string, 1000))).decode()
    assert form_of(said, "key").serde == Serdes.windowed(Serdes.string, 1000)
    with pytest.raises(ConfigError, match="the serde of key cannot be used"):
        form_of(PICKLED + b64encode(b"?").decode(), "key")


@pytest.mark.parametrize("name", ["string", "int64", "boolean"])
def test_bytes_of_another_form_are_refused_with_what_to_write(name):
    with pytest.raises(StoreError, match=rf"the values of store 's' are not {name}.*value='bytes'"):
        shown(pa.array([b"\xff\xff\xff"]), form_of(name, "value"), "value", "s")
