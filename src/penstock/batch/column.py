"""A column: the keys or the values of a batch, as objects, as bytes, or both.

Each is made of the other when it is first asked for, so what nobody asks for is never made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import is_
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batch.fallback import Undecodable
from penstock.errors import RegistryError
from penstock.serde.base import Serde
from penstock.serde.json_lines import JsonLines, json_lines
from penstock.serde.primitives import string
from penstock.serde.registry.columns import AvroColumns, avro_columns
from penstock.serde.traits import is_canonical, is_stable

#: classes whose objects nobody can change
FIXED = frozenset({int, str, bytes, float, bool, type(None)})


class Column:
    """Keys or values of records, in order; None is Kafka's null.

    ``data`` are bytes that ``serde`` reads as the items. ``made``: they are also what it would write of them. ``on_decode``: they came from
    outside and were not read yet, nobody knows if they can be; when they are, it is told what the time went on.

    >>> from penstock.serde import Serdes
    >>> names = Column(data=pa.array([b"ann", None, b"bob"]), serde=Serdes.string)
    >>> names.items, names.pick([2, 0]).items, Column([1, 2]).bytes_of(Serdes.json)
    (['ann', None, 'bob'], ['bob', 'ann'], [b'1', b'2'])
    """

    __slots__ = ("_at", "_complete", "_data", "_items", "_made", "_on_decode", "_serde")

    def __init__(
        self,
        items: list[Any] | None = None,
        *,
        data: pa.Array | list[bytes | None] | None = None,
        serde: Serde[Any] | None = None,
        made: bool = False,
        on_decode: Callable[[str], None] | None = None,
    ) -> None:
        assert items is not None or (data is not None and serde is not None)
        self._items = items
        self._data = data
        #: which of the bytes belong to the items; None: all, in order
        self._at: list[int] | None = None
        #: True: it is known that no item is None
        self._complete = False
        self._serde = serde
        self._made = made or (serde is not None and is_canonical(serde))
        self._on_decode = on_decode

    def __len__(self) -> int:
        return len(self._items if self._items is not None else self._data)  # type: ignore[arg-type]

    @property
    def items(self) -> list[Any]:
        """The objects."""
        if self._items is None:
            self._items = self._read(self._data)
        return self._items

    def items_at(self, places: Any, *, kept: bool = True) -> list[Any]:
        """Return the objects at these places. ``kept``: others will ask for them, too.

        If these are all of them and were not read yet they are read in that order: objects that are used one after the other lie one
        after the other then, and each is used in two thirds of the time.

        >>> from penstock.serde import Serdes
        >>> Column(data=pa.array([b"1", b"2"]), serde=Serdes.json).items_at(np.array([1, 0]), kept=False)
        [2, 1]
        """
        if not kept and self._items is None and isinstance(self._data, pa.Array) and len(places) == len(self._data):
            found = self._read(self._data.take(pa.array(places)))
            if self._complete or not _has_none(found):  # else they are kept, so that ``has_nulls`` knows
                return found
        items = self.items
        return [items[place] for place in places.tolist()]

    def check(self) -> None:
        """Raise ``Undecodable`` if these items, which nobody may have asked for, cannot be read."""
        if self._on_decode is not None:
            _ = self.items

    @property
    def size(self) -> int:
        """Size in bytes; of items that were never bytes, as much as their references."""
        if isinstance(self._data, pa.Array):
            return int(self._data.nbytes)
        return 8 * len(self) if self._data is None else sum(len(item or b"") for item in self._data)

    def _read(self, data: Any) -> list[Any]:
        on_decode = self._on_decode
        if on_decode is None:
            return self._decoded(data)
        on_decode("operators")
        try:
            found = self._decoded(data)
        except RegistryError:  # no fault of the rows
            raise
        except Exception as error:
            raise Undecodable from error
        on_decode("decode")
        self._on_decode = None
        return found

    def _decoded(self, data: Any) -> list[Any]:
        assert self._serde is not None
        lines = json_lines(self._serde) or avro_columns(self._serde)
        if lines is not None:
            rows = data if isinstance(data, pa.Array) else pa.array(data, pa.binary())
            known = rows.drop_null() if rows.null_count else rows
            found = lines.decode(known)
            if found is not None and not rows.null_count:
                self._complete = True
                return found
            if found is not None:
                return spread_out(found, rows.is_valid().to_numpy(zero_copy_only=False))
        if isinstance(data, pa.Array):
            if self._serde == string and (text := _text(data)) is not None:
                return text
            data = data.to_pylist()
        decode = self._serde.deserialize
        return [None if item is None else decode(item) for item in data] if _has_none(data) else list(map(decode, data))

    @property
    def has_nulls(self) -> bool:
        """Whether an item is None; JSON's null is one, too, once it was read."""
        self.check()
        if self._complete:
            return False
        if self._items is None and isinstance(self._data, pa.Array):
            return bool(self._data.null_count)
        return _has_none((self._data if self._items is None else self._items) or ())

    def is_bytes_of(self, serde: Serde[Any], *, read: bool = False) -> bool:
        """Whether the bytes at hand are what the serde would write of the items; ``read``: or such as it reads as the same."""
        return self._data is not None and self._serde == serde and (read or (self._made and is_stable(serde)))

    def is_sure_of(self, serde: Serde[Any], classes: frozenset[type]) -> bool:
        """Whether the serde takes all items, without asking it: it has read them, or they are of classes that it always takes."""
        if self.is_bytes_of(serde, read=True):
            return True
        return bool(classes) and all(item.__class__ in classes for item in self.items)

    def bytes_of(self, serde: Serde[Any], *, read: bool = False) -> pa.Array | list[bytes | None]:
        """Return the items as bytes; those at hand, where they will do."""
        if self.is_bytes_of(serde, read=read):
            return self._bytes()
        lines = json_lines(serde) or avro_columns(serde)
        found = None if lines is None else _encoded(lines, self.items)
        if found is not None:
            return found
        encode = serde.serialize
        return [None if item is None else encode(item) for item in self.items]

    def arrow_of(self, serde: Serde[Any], *, read: bool = False) -> pa.Array:
        """Return the items as bytes, as an Arrow array."""
        data = self.bytes_of(serde, read=read)
        return data if isinstance(data, pa.Array) else pa.array(data, pa.binary())

    @staticmethod
    def joined(columns: Sequence[Column]) -> Column:
        """Return all items, column by column: as bytes, if all have bytes that the same serde reads, else as objects."""
        first = columns[0]
        data = [column._bytes() for column in columns if column._data is not None and column._serde == first._serde]
        arrays = [part for part in data if isinstance(part, pa.Array) and part.type == pa.binary()]
        if len(arrays) < len(columns):
            return Column([item for column in columns for item in column.items])
        made = all(column._made for column in columns)
        return Column(data=pa.concat_arrays(arrays), serde=first._serde, made=made)

    def pick(self, at: list[int]) -> Column:
        """Return the items at these places; a place may come several times."""
        self.check()
        items, data = self._items, self._data
        picked = None if items is None else [items[i] for i in at]
        if isinstance(data, pa.Array) and items is None:
            data = data.take(pa.array(at, pa.int64()))
        elif isinstance(data, list):
            data = [data[i] for i in at]
        column = Column(picked, data=data, serde=self._serde, made=self._made)
        column._complete = self._complete
        if isinstance(data, pa.Array) and items is not None:  # who has the objects may never ask for the bytes
            column._at = at if self._at is None else [self._at[i] for i in at]
        return column

    @property
    def is_fixed(self) -> bool:
        """Whether nobody can change the items."""
        return all(item.__class__ in FIXED for item in self.items)

    def unchanged(self) -> Column | None:
        """Return the items as they were, whatever functions have done to them; None if nothing says what they were.

        >>> numbers = Column([1, 2])
        >>> numbers.unchanged() is numbers, Column([[1]]).unchanged()
        (True, None)
        """
        if self._data is not None:
            return Column(data=self._bytes(), serde=self._serde, made=self._made)
        return self if self.is_fixed else None

    def _bytes(self) -> pa.Array | list[bytes | None]:
        assert self._data is not None
        if self._at is not None:
            assert isinstance(self._data, pa.Array)
            self._data, self._at = self._data.take(pa.array(self._at, pa.int64())), None
        return self._data


def _has_none(items: Iterable[Any]) -> bool:
    return any(map(is_, items, repeat(None)))


def _text(data: pa.Array) -> list[Any] | None:
    """Return rows of UTF-8 as text, in half of the time that it takes to decode each; None if some are not."""
    try:
        return data.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None


def spread_out(items: list[Any], there: Any) -> list[Any]:
    """Return items at the places where they are, and None at the others.

    >>> spread_out(["a", "b"], np.array([True, False, True]))
    ['a', None, 'b']
    """
    spread: list[Any] = [None] * len(there)
    for place, item in zip(np.flatnonzero(there).tolist(), items, strict=True):
        spread[place] = item
    return spread


def _encoded(lines: JsonLines | AvroColumns, items: list[Any]) -> pa.Array | None:
    """Return the bytes of values, null for None; None if they have to be written one by one."""
    found = lines.encode(items)
    if found is not None:
        return found
    there = np.array([item is not None for item in items], dtype=bool)
    if there.all() or not there.any():
        return None
    found = lines.encode([item for item in items if item is not None])
    return None if found is None else found.take(pa.array(np.cumsum(there) - 1, mask=~there))
