"""Keys in requests: as text in the path, as JSON, or as base64 of their bytes, for every serde.

::

    serde                       text in the path     key_json=                            answers
    string                      as it is             "pear"                               "pear"
    int, float, boolean, uuid   17, 1.5, true        17, 1.5, true, "123e4567-..."        17
    bytes                       base64               {"base64": "cGVhcg=="}               {"base64": "cGVhcg=="}
    json, json_of(...)          JSON, else a text    {"id": 7}                            {"id": 7}
    windowed(...)                                    {"key": "pear", "start": 0, "end": 9}
    any other                                                                             what its value is as JSON

``key_base64=`` takes the bytes that the serde would make, and so works for all of them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

import orjson

from penstock.admin.answers import HttpError
from penstock.record import Windowed
from penstock.serde import Serde, Serdes
from penstock.serde.windowed import SessionWindowedSerde, WindowedSerde
from penstock.state.spec import StoreSpec


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text == "true"


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)


#: what a key is made of, if it is text
FROM_TEXT: tuple[tuple[Serde[Any], Callable[[str], Any]], ...] = (
    (Serdes.string, str),
    (Serdes.int32, int),
    (Serdes.int64, int),
    (Serdes.float32, float),
    (Serdes.float64, float),
    (Serdes.boolean, _boolean),
    (Serdes.uuid, UUID),
    (Serdes.bytes, _from_base64),
)


def key_serde(spec: StoreSpec) -> Serde[Any]:
    """Return the serde of a store's keys."""
    return spec.key or Serdes.string


def from_text(spec: StoreSpec, text: str) -> Any:
    """Return the key that a text stands for.

    >>> from penstock.state.spec import Stores
    >>> from_text(Stores.key_value("s", key=Serdes.int64), "17"), from_text(Stores.key_value("s", key=Serdes.json), '{"a": 1}')
    (17, {'a': 1})
    """
    serde = key_serde(spec)
    for known, read in FROM_TEXT:
        if serde == known:
            return _converted(spec, text, partial(read, text))
    if is_json(serde):
        return _converted(spec, text, lambda: serde.deserialize(_json_bytes(text)))
    raise HttpError(
        400,
        f"keys of store {spec.name!r} ({serde!r}) have no form as text",
        "give key_json=, or the bytes of the key as key_base64=, with /keys",
    )


def from_json(spec: StoreSpec, text: str | bytes) -> Any:
    """Return the key that JSON stands for."""
    return _converted(spec, text, lambda: key_of(key_serde(spec), orjson.loads(text)))


def from_base64(spec: StoreSpec, text: str) -> Any:
    """Return the key of which the bytes are given."""
    return _converted(spec, text, lambda: key_serde(spec).deserialize(_from_base64(text)))


def key_of(serde: Serde[Any], found: Any) -> Any:
    """Return a key, of what JSON has of it.

    >>> key_of(Serdes.windowed(Serdes.string, 10), {"key": "pear", "start": 20})
    Windowed(key='pear', start=20, end=30)
    """
    if isinstance(serde, WindowedSerde | SessionWindowedSerde) and isinstance(found, Mapping):
        end = found["end"] if "end" in found or not isinstance(serde, WindowedSerde) else None
        start = int(found["start"])
        last = start + (getattr(serde, "size", None) or 0) if end is None else int(end)
        return Windowed(key_of(serde.inner, found["key"]), start, last)
    if isinstance(found, Mapping) and found.keys() == {"base64"}:
        return _from_base64(found["base64"])
    if serde == Serdes.uuid:
        return UUID(found)
    if is_json(serde):
        return serde.deserialize(orjson.dumps(found))
    return found


def is_json(serde: Serde[Any]) -> bool:
    """Whether the bytes of a serde are JSON."""
    return serde == Serdes.json or (serde.name or "").startswith(("json_of(", "json_schema("))


def _json_bytes(text: str) -> bytes:
    """Return a text as JSON: as it is, if it is JSON already."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return orjson.dumps(text)
    return text.encode()


def _converted(spec: StoreSpec, given: str | bytes, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (ValueError, TypeError, KeyError, binascii.Error) as error:
        shown = given[:100] if isinstance(given, str) else given[:100].decode("utf-8", "replace")
        raise HttpError(
            400,
            f"{shown!r} is no key of store {spec.name!r} ({key_serde(spec)!r}): {error}",
            "see /v1/stores/{store}; key_json= takes JSON, key_base64= the bytes of the key",
        ) from None
    except Exception as error:  # a serde of the user's may raise anything
        raise HttpError(
            400, f"{key_serde(spec)!r} of store {spec.name!r} refused the key: {error}", "give a key of the store"
        ) from None
