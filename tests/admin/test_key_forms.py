"""Keys in requests, and values in answers, for every serde."""

import base64
from dataclasses import dataclass
from uuid import UUID

import msgspec
import orjson
import pytest
from google.protobuf.type_pb2 import Field

from penstock import Serde, Serdes, Stores
from penstock.admin.answers import HttpError, encoded
from penstock.admin.key_forms import from_base64, from_json, from_text
from penstock.record import Windowed

ID = UUID("12345678-1234-5678-1234-567812345678")


class Order(msgspec.Struct, frozen=True):
    id: int


@dataclass(frozen=True)
class Place:
    row: int


WINDOWED = Serdes.windowed(Serdes.string, 10)
SESSION = Serdes.session_windowed(Serdes.int64)
CASES = [
    (Serdes.string, "a/b ä", '"a/b ä"', "a/b ä"),
    (Serdes.int32, "-7", "-7", -7),
    (Serdes.int64, "9007199254740993", "9007199254740993", 9007199254740993),
    (Serdes.float64, "1.5", "1.5", 1.5),
    (Serdes.boolean, "true", "true", True),
    (Serdes.uuid, str(ID), f'"{ID}"', ID),
    (Serdes.bytes, "_-8=", '{"base64": "/+8="}', b"\xff\xef"),
    (Serdes.json, '{"b": [1]}', '{"b": [1]}', {"b": [1]}),
    (Serdes.json, "pear", '"pear"', "pear"),
    (Serdes.json_of(Order), '{"id": 7}', '{"id": 7}', Order(7)),
    (Serdes.json_schema(Order), '{"id": 7}', '{"id": 7}', Order(7)),
    (WINDOWED, None, '{"key": "pear", "start": 20}', Windowed("pear", 20, 30)),
    (SESSION, None, '{"key": 7, "start": 20, "end": 25}', Windowed(7, 20, 25)),
]


@pytest.mark.parametrize(("serde", "text", "json", "key"), CASES, ids=lambda value: str(value)[:30])
def test_a_key_as_text_as_json_and_as_bytes(serde, text, json, key):
    spec = Stores.key_value("s", key=serde)
    assert from_json(spec, json) == key
    assert from_base64(spec, base64.b64encode(serde.serialize(key)).decode()) == key
    if text is not None:
        assert from_text(spec, text) == key


def test_what_an_answer_shows_of_a_key_is_what_a_request_takes():
    for serde, _, _, key in CASES:
        spec = Stores.key_value("s", key=serde)
        assert from_json(spec, encoded(key)) == key


@pytest.mark.parametrize(
    ("serde", "text"),
    [
        (Serdes.int64, "x"),
        (Serdes.boolean, "yes"),
        (Serdes.uuid, "1"),
        (Serdes.bytes, "%%"),
        (Serdes.json_of(Order), "{}"),
    ],
)
def test_what_is_no_key_is_refused_with_the_serde(serde, text):
    with pytest.raises(HttpError, match="is no key of store 's'") as refused:
        from_text(Stores.key_value("s", key=serde), text)
    assert refused.value.status == 400


def test_a_serde_of_the_users_takes_bytes():
    spec = Stores.key_value("s", key=Serde(lambda place: b"%d" % place.row, lambda data: Place(int(data))))
    assert from_base64(spec, "Nw") == Place(7)
    with pytest.raises(HttpError) as refused:
        from_text(spec, "7")
    assert "key_base64=" in refused.value.remedy


def test_values_that_json_does_not_have():
    value = {
        "a": b"\xff",
        "b": {1},
        "c": Order(3),
        "d": Place(4),
        5: 1 << 80,
        "e": float("nan"),
        "f": "\ud800",
        "g": ID,
        "h": Field(name="n", number=3),
    }
    found = orjson.loads(encoded(value))
    assert found["a"] == {"base64": "/w=="}
    assert found["b"] == [1]
    assert found["c"] == {"id": 3}
    assert found["d"] == {"row": 4}
    assert found["5"] == str(1 << 80)
    assert found["e"] is None
    assert found["g"] == str(ID)
    assert found["h"] == {"name": "n", "number": 3}
