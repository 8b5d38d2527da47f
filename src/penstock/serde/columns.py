"""Records by column: how the nodes of a chain hand on thousands of them at a time.

A column is objects, or bytes, or both: each is made of the other when it is first asked for, so what nobody asks for is never made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from operator import is_
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.record import Headers, Origin
from penstock.serde.base import Serde
from penstock.serde.json_lines import JsonLines, json_lines
from penstock.serde.primitives import string
from penstock.serde.traits import is_canonical, is_stable

logger = logging.getLogger("penstock.columns")


class Irregular(Exception):
    """These records are not for columns (a key or a value is missing, a row is deleted): they are to go one by one."""


class Unreadable(Irregular):
    """What came from outside cannot be read: some record of these is to be judged, others are not."""


class Called(Irregular):
    """These records are not for columns, which shows when functions have been called for them: they are to go as they were."""


class Changed(Irregular):
    """A function may have changed the values of these records, and nothing says what they were: they are to be read again."""


#: classes whose objects nobody can change
FIXED = frozenset({int, str, bytes, float, bool, type(None)})


class Column:
    """Keys or values of records, in order; None is Kafka's null.

    ``data`` are bytes that ``serde`` reads as the items. ``made``: they are also what it would write of them. ``told``: they came from
    outside and were not read yet, nobody knows if they can be; when they are, it is told what the time went on.

    >>> from penstock.serde import Serdes
    >>> names = Column(data=pa.array([b"ann", None, b"bob"]), serde=Serdes.string)
    >>> names.items, names.pick([2, 0]).items, Column([1, 2]).bytes_of(Serdes.json)
    (['ann', None, 'bob'], ['bob', 'ann'], [b'1', b'2'])
    """

    __slots__ = ("_at", "_complete", "_data", "_items", "_made", "_serde", "_told")

    def __init__(
        self,
        items: list[Any] | None = None,
        *,
        data: pa.Array | list[bytes | None] | None = None,
        serde: Serde[Any] | None = None,
        made: bool = False,
        told: Callable[[str], None] | None = None,
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
        self._told = told

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
        """Raise ``Unreadable`` if these items, which nobody may have asked for, cannot be read."""
        if self._told is not None:
            _ = self.items

    def _read(self, data: Any) -> list[Any]:
        told = self._told
        if told is None:
            return self._decoded(data)
        told("operators")
        try:
            found = self._decoded(data)
        except Exception as error:
            raise Unreadable from error
        told("decode")
        self._told = None
        return found

    def _decoded(self, data: Any) -> list[Any]:
        assert self._serde is not None
        lines = json_lines(self._serde)
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
        lines = json_lines(serde)
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


def _encoded(lines: JsonLines, items: list[Any]) -> pa.Array | None:
    """Return the bytes of values, null for None; None if they have to be written one by one."""
    found = lines.encode(items)
    if found is not None:
        return found
    there = np.array([item is not None for item in items], dtype=bool)
    if there.all() or not there.any():
        return None
    found = lines.encode([item for item in items if item is not None])
    return None if found is None else found.take(pa.array(np.cumsum(there) - 1, mask=~there))


class Spots:
    """Where the source records of a batch are from, as numbers; an `Origin` is made of them when it is asked for."""

    __slots__ = ("arrays", "count", "indexes", "located", "origin", "places", "times", "told")

    def __init__(
        self,
        origin: Callable[[int], Origin],
        indexes: Callable[[], Any],
        times: Callable[[], Any],
        count: int,
        arrays: Mapping[str, Any] | None = None,
    ) -> None:
        #: makes the origin of a source record of the batch
        self.origin = origin
        #: makes the partition index of each
        self.indexes = indexes
        #: makes the timestamp of each, as its origin has it
        self.times = times
        #: how many there are
        self.count = count
        #: all numbers of the origins by their names, where they are at hand and origins hold nothing else but raw bytes
        self.arrays = arrays
        #: where records of several sources go together: the place of each among all of them, and what was told of stores, by name
        self.places: Any = None
        #: where each is in the order of the epoch, once somebody has asked (``lane.task_time``)
        self.located: Any = None
        self.told: dict[str, Any] = {}


def are_alike(numbers: Sequence[Mapping[str, Any]]) -> bool:
    """Whether numbers of origins of several batches may be put together: those behind a re-key have more."""
    return len({tuple((name, column.shape[1:]) for name, column in some.items()) for some in numbers}) == 1


def spots_of(origins: Sequence[Origin]) -> Spots:
    """Return origins that are there as spots."""

    def indexes() -> Any:
        return np.array([origin.partition_index for origin in origins], dtype=np.int64)

    def times() -> Any:
        return np.array([origin.timestamp for origin in origins], dtype=np.int64)

    return Spots(origins.__getitem__, indexes, times, len(origins))


class Columns:
    """Records of one shard on their way through a chain, in order.

    ``headers`` None: no record has any. ``rows``: the source record of each, by its place in the batch; None: one for each.
    ``shared``: other nodes have the same objects. ``counts``: how many records each stands for, None: itself. ``old``: of updates of a
    table whose readers ask for them, the values before.
    """

    __slots__ = ("counts", "headers", "keys", "old", "rows", "shared", "spots", "timestamps", "values")

    def __init__(
        self,
        keys: Column,
        values: Column,
        timestamps: Any,
        headers: Sequence[Headers] | None,
        spots: Spots,
        rows: Any = None,
        shared: bool = False,
        counts: Any = None,
        old: Column | None = None,
    ) -> None:
        self.keys = keys
        self.values = values
        self.timestamps = timestamps
        self.headers = headers
        self.spots = spots
        self.rows = rows
        self.shared = shared
        self.counts = counts
        self.old = old

    def __len__(self) -> int:
        return len(self.timestamps)

    def origin(self, at: int) -> Origin:
        """Return the origin of a record."""
        return self.spots.origin(at if self.rows is None else int(self.rows[at]))

    @property
    def places(self) -> Any:
        """The place of each record: among all that go together, or else of its source record in the batch."""
        places = self.spots.places
        if places is None:
            return np.arange(len(self)) if self.rows is None else self.rows
        return self.of_source(places)

    def of_source(self, column: Any) -> Any:
        """Return a column of the source records as one of these records."""
        return column if self.rows is None else column[self.rows]

    def as_shared(self) -> Columns:
        """Return the same records, for several nodes."""
        return Columns(self.keys, self.values, self.timestamps, self.headers, self.spots, self.rows, True, old=self.old)

    def having(self, keys: Column | None = None, values: Column | None = None) -> Columns:
        """Return the same records with other keys or values."""
        keys, values = keys or self.keys, values or self.values
        return Columns(keys, values, self.timestamps, self.headers, self.spots, self.rows, self.shared)

    def check(self) -> None:
        """Raise ``Unreadable`` if some of it, which nobody may have asked for, cannot be read."""
        self.keys.check()
        self.values.check()

    def pick(self, at: list[int]) -> Columns:
        """Return the records at these places."""
        return self.spread(at, self.keys.pick(at), self.values.pick(at))

    def unchanged(self) -> Columns | None:
        """Return the records as they were, whatever functions have done to them; None if nothing says what they were.

        Nor does anything say how they would be if other nodes have them, too: which functions have had their turn, and which have not.
        """
        if self.shared and not self.values.is_fixed:
            return None
        keys, values = self.keys.unchanged(), self.values.unchanged()
        return None if keys is None or values is None else self.having(keys, values)

    def at(self, places: Any, timestamps: Any) -> Columns:
        """Return the records at these places, with timestamps of their own."""
        picked = self.pick(places.tolist())
        picked.timestamps = timestamps
        return picked

    def spread(self, at: list[int], keys: Column, values: Column) -> Columns:
        """Return records that have come of those at these places, with keys and values of their own."""
        places = np.array(at, dtype=np.int64)
        headers = None if self.headers is None else [self.headers[i] for i in at]
        rows = places if self.rows is None else self.rows[places]
        return Columns(keys, values, self.timestamps[places], headers, self.spots, rows, self.shared)


#: what a chain does once all of it went well: nothing of it may fail
Commits: TypeAlias = list[Callable[[], None]]
#: takes records by column; what it would write it leaves in ``Commits``. Whatever it raises, nothing has happened
OnColumns: TypeAlias = Callable[[Columns, Commits], None]


def present(commits: Commits, drop: Callable[[str], None], **needed: Column) -> list[int] | None:
    """Return the places of the records that miss nothing, None: all; the others are dropped, for the first thing missing.

    >>> dropped, commits = [], []
    >>> present(commits, dropped.append, null_value=Column([1, None, 3]), null_key=Column(["a", "b", None]))
    [0]
    >>> [commit() for commit in commits], dropped
    ([None], ['null_value', 'null_key'])
    """
    if not any(column.has_nulls for column in needed.values()):
        return None
    dropped: list[str] = []
    at: list[int] = []
    for place, items in enumerate(zip(*(column.items for column in needed.values()), strict=True)):
        if None not in items:
            at.append(place)
        else:
            dropped += [next(reason for reason, item in zip(needed, items, strict=True) if item is None)]

    def commit() -> None:
        for reason in dropped:
            drop(reason)

    commits.append(commit)
    return at


def rows_of(column: Column, serde: Serde[Any], *, read: bool = False) -> tuple[pa.Array, dict[int, Exception]]:
    """Return items as bytes, null where the serde raises, and what it raises there, by place.

    >>> from penstock.serde import Serdes
    >>> rows, refused = rows_of(Column([1, {2}, None]), Serdes.json)
    >>> rows.to_pylist(), list(refused)
    ([b'1', None, None], [1])
    """
    try:
        return column.arrow_of(serde, read=read), {}
    except Unreadable:
        raise
    except Exception:  # whatever it raises: each item is asked for by itself
        refused: dict[int, Exception] = {}
    rows: list[bytes | None] = []
    for place, item in enumerate(column.items):
        try:
            rows.append(None if item is None else serde.serialize(item))
        except Exception as error:
            refused[place] = error
            rows.append(None)
    return pa.array(rows, pa.binary()), refused


def all_or_nothing(steps: Iterable[Callable[[Commits], None]], *, must: bool = False) -> bool:
    """Take steps that run records by column, and then do what they would do; False, and nothing has happened, if one has raised.

    Whatever it is: one by one a record is told of with its node, or judged. ``must``: there is no such way. ``Unreadable`` is raised.
    """
    commits: Commits = []
    try:
        for step in steps:
            step(commits)
    except Unreadable:
        raise
    except Exception as error:
        if must:
            raise
        if not isinstance(error, Irregular):  # if it is a fault of ours, nothing but the time tells of it
            logger.debug("records go one by one", exc_info=True)
        return False
    for commit in commits:
        commit()
    return True
