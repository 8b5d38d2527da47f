"""How the bytes of a column are shown: as numbers, text or JSON, by the serde that made them.

=================  =============  ======================================
serde              Spark's type   what it holds
=================  =============  ======================================
string, uuid       string         text
json, json_of(T)   string         JSON as it was written; of json_schema, too
int32, int64       int, bigint    the number
float32, float64   float, double  the number
boolean            boolean        true or false
bytes, unknown     binary         the bytes
your own           string         JSON of what its ``deserialize`` gives
=================  =============  ======================================
"""

from __future__ import annotations

import base64
import binascii
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError, StoreError, nearest
from penstock.protocol import main_module
from penstock.serde import Serde, Serdes
from penstock.serde.protobuf import shown_message

#: serdes that can be named, and so be known without the program; ``pickle`` runs code that the bytes name, and must be asked for
NAMED = ("string", "json", "int32", "int64", "float32", "float64", "boolean", "uuid", "bytes")
_TEXT = ("string", "uuid", "json")
#: name → (bytes, form of NumPy, Arrow's type, Spark's type)
_NUMBERS: dict[str, tuple[int, str, pa.DataType, str]] = {
    "int32": (4, ">i4", pa.int32(), "int"),
    "int64": (8, ">i8", pa.int64(), "bigint"),
    "float32": (4, ">f4", pa.float32(), "float"),
    "float64": (8, ">f8", pa.float64(), "double"),
}
#: in front of a serde that is not known by a name, as text
PICKLED = "pickled:"


def known_serde(said: str) -> Serde[Any] | None:
    """Return the serde that an epoch record names, if its values are known without the program.

    >>> known_serde("Serdes.int64"), known_serde("Serdes.json_of(Order)"), known_serde("Serdes.pickle"), known_serde("")
    (Serdes.int64, Serdes.json, None, None)
    >>> known_serde("Serdes.json_schema(Order)"), known_serde("Serdes.avro(Order)")
    (Serdes.json, None)
    """
    name = said.removeprefix("Serdes.")
    if name.startswith(("json_of(", "json_schema(")):
        return Serdes.json
    return getattr(Serdes, name) if name in NAMED else None


@dataclass(frozen=True)
class ColumnForm:
    """How one column is shown. ``name``: of a built-in serde; else ``serde``.

    >>> int64 = ColumnForm("int64")
    >>> int64.sql_type, int64.decode(pa.array([bytes(7) + b"\\x05"])).to_pylist()
    ('bigint', [5])
    """

    name: str
    serde: Serde[Any] | None = None

    @property
    def sql_type(self) -> str:
        """Spark's name of the column's type."""
        if self.name in _NUMBERS:
            return _NUMBERS[self.name][3]
        return {"boolean": "boolean", "bytes": "binary"}.get(self.name, "string")

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow's type of the column."""
        if self.name in _NUMBERS:
            return _NUMBERS[self.name][2]
        return {"boolean": pa.bool_(), "bytes": pa.binary()}.get(self.name, pa.string())

    @property
    def is_json(self) -> bool:
        """Whether the text of the column is JSON."""
        return self.name in ("json", "")

    def decode(self, data: pa.Array) -> pa.Array:
        """Return bytes as they are shown; raise what is natural if they are not of that form."""
        if self.name == "bytes":
            return data.cast(pa.binary())
        if self.name in _TEXT:
            return data.cast(pa.binary()).cast(pa.string())
        if self.name in _NUMBERS:
            return _numbers(data, *_NUMBERS[self.name][:3])
        return pa.array(list(map(self._value(), data.to_pylist())), self.arrow_type)

    def _value(self) -> Callable[[bytes], Any]:
        """Return what makes one value."""
        if self.serde is None:
            return Serdes.boolean.deserialize
        deserialize, encode = self.serde.deserialize, msgspec.json.Encoder(enc_hook=shown_message).encode
        return lambda data: encode(deserialize(data)).decode()


def _numbers(data: pa.Array, size: int, form: str, kind: pa.DataType) -> pa.Array:
    flat = data.cast(pa.large_binary())
    _, offsets, held = flat.buffers()
    edges = np.frombuffer(offsets, dtype=np.int64)[flat.offset : flat.offset + len(flat) + 1]
    if (np.diff(edges) != size).any():
        raise ValueError(f"a number of {size} bytes was expected")
    numbers = np.frombuffer(held or b"", dtype=np.uint8)[edges[0] : edges[-1]].view(form)
    return pa.array(numbers.astype(numbers.dtype.newbyteorder("=")), kind)


def form_of(given: Serde[Any] | str, column: str) -> ColumnForm:
    """Return the form of a column that a serde, its name, or a pickled one asks for.

    >>> form_of(Serdes.json, "value"), form_of("int64", "value").name
    (ColumnForm(name='json', serde=None), 'int64')
    >>> form_of("int46", "value")
    Traceback (most recent call last):
    penstock.errors.ConfigError: value='int46': there is no such serde (did you mean 'int64'?); there are ...
    """
    if isinstance(given, Serde):
        known = known_serde(repr(given))
        return ColumnForm("", given) if known is None else ColumnForm(repr(known).removeprefix("Serdes."))
    if given in NAMED:
        return ColumnForm(given)
    if given.startswith(PICKLED):
        try:
            return ColumnForm("", main_module.load(base64.b64decode(given.removeprefix(PICKLED))))
        except (binascii.Error, pickle.UnpicklingError, ImportError, AttributeError) as error:
            raise ConfigError(f"the serde of {column} cannot be used here: {error}") from error
    raise ConfigError(
        f"{column}={given!r}: there is no such serde{nearest(given, NAMED)}; there are {', '.join(NAMED)}"
    )


def default_form(said: str) -> ColumnForm:
    """Return how bytes are shown of which an epoch record names the serde.

    >>> default_form("Serdes.string").name, default_form("Serdes.json_of(Order)").name, default_form("").name
    ('string', 'json', 'bytes')
    """
    known = known_serde(said)
    return form_of(known, "column") if known is not None else ColumnForm("bytes")


def shown(data: pa.Array, form: ColumnForm, column: str, store: str) -> pa.Array:
    """Return a column of a store as it is shown; raise ``StoreError`` if its bytes are not of that form."""
    try:
        return form.decode(data)
    except Exception as error:
        said = form.name or repr(form.serde)
        raise StoreError(
            f"the {column}s of store {store!r} are not {said}: {error}. Say what they are ({column}=), or {column}='bytes'"
        ) from error
