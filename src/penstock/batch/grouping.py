"""Records by key: which there are of each, keys in their order as unsigned bytes.

In key order, because that is how a base map is asked and written for the least: neighbours lie on one page. Where a compiler has built it,
one loop in C does it (``_grouping``); else Arrow and NumPy do, with the same result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.batch.fallback import Fallback
from penstock.native.loader import in_c

loops: Any = in_c("grouping")

#: bytes of a key that are compared as one number
_WORD = 8
#: leaves so many bytes of a number
_FIRST = np.array([(1 << 64) - (1 << (64 - 8 * count)) for count in range(_WORD + 1)], dtype=np.uint64)
#: numbers below this are sorted by their digits, in a fifth of the time
_SMALL = 1 << 16


class KeyGroups:
    """Records by key, and if there are parts first by part: which there are of each, in order.

    >>> groups = KeyGroups(pa.array([b"b", b"a", b"b"]))
    >>> groups.keys, groups.order.tolist(), groups.starts.tolist(), groups.ends.tolist(), groups.last.tolist()
    ([b'a', b'b'], [1, 0, 2], [0, 1], [1, 3], [1, 2])
    >>> groups = KeyGroups(pa.array([b"b", b"a", b"b"]), np.array([1, 0, 0]))
    >>> groups.keys, groups.parts, groups.order.tolist()
    ([b'a', b'b', b'b'], [0, 0, 1], [1, 2, 0])
    """

    __slots__ = ("_keys", "ends", "last", "names", "order", "parts", "starts")

    #: key of each group, and part
    names: pa.Array
    parts: list[int]
    #: places of the records, group by group
    order: Any
    #: of each group, where it begins and ends in ``order``, and the place of its last record
    starts: Any
    ends: Any
    last: Any

    def __init__(self, data: pa.Array, part: Any = None) -> None:
        if data.null_count:
            raise Fallback("null_key")
        self._keys: list[bytes] | None = None
        if loops is not None and data.type == pa.binary():
            self._group_in_c(data, part)
        else:
            self._group(data, part)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def keys(self) -> list[bytes]:
        """Key of each group, as a list: made when it is first asked for."""
        if self._keys is None:
            self._keys = self.names.to_pylist()
        return self._keys

    def _group_in_c(self, data: pa.Array, part: Any) -> None:
        _, offsets, held = data.buffers()
        numbers = None if part is None else np.ascontiguousarray(part, dtype=np.int64)
        order, edges, last, parts, *names = loops.group(len(data), offsets, held, data.offset, numbers)
        self.order = np.frombuffer(order, dtype=np.int64)
        self.last = np.frombuffer(last, dtype=np.int64)
        ends = np.frombuffer(edges, dtype=np.int64)
        self.starts, self.ends = ends[:-1], ends[1:]
        self.parts = np.frombuffer(parts, dtype=np.int64).tolist()
        self.names = pa.Array.from_buffers(pa.binary(), len(self.starts), [None, *map(pa.py_buffer, names)])

    def _group(self, data: pa.Array, part: Any) -> None:
        encoded = data.dictionary_encode()
        order = key_order(encoded.dictionary)
        self.names = encoded.dictionary.take(pa.array(order))
        self.parts = []
        if part is None and len(order) == len(data):  # each key comes once
            self.order = self.last = order
            self.starts = np.arange(len(order))
            self.ends = self.starts + 1
            return
        rank = np.empty(len(order), dtype=np.uint16 if len(order) <= _SMALL else np.int64)
        rank[order] = np.arange(len(order))
        codes = rank[encoded.indices.to_numpy()]
        if part is not None:
            found, codes = np.unique(part * len(order) + codes, return_inverse=True)
            self.parts = (found // len(order)).tolist()
            self.names = self.names.take(pa.array(found % len(order)))
        self.order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes, minlength=len(self.names))
        self.ends = np.cumsum(counts)
        self.starts = self.ends - counts
        self.last = self.order[self.ends - 1]


def key_order(keys: pa.Array) -> Any:
    """Return the order of keys of which each comes once: as places, ascending.

    What all of them begin with does not count, and mostly the eight bytes behind it say it, or the next eight; as numbers they are sorted
    in a quarter of the time. Where two keys have these in common, or one ends there, the keys are compared as they are.

    >>> key_order(pa.array([b"k10", b"k2", b"k1"])).tolist(), key_order(pa.array([b"a" + bytes(1), b"a"])).tolist()
    ([2, 0, 1], [1, 0])
    >>> key_order(pa.array([b"a12345678b", b"b12345678a", b"a12345678a"])).tolist()
    [2, 0, 1]
    """
    if len(keys) < 2:
        return np.arange(len(keys))
    first, last = (end.as_py() for end in pc.min_max(keys).values())
    same = next(
        (place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first)
    )
    words = _words(keys, same)
    order = np.argsort(words)
    if not _equals(words[order]).any():
        return order
    more = _words(keys, same + _WORD)
    order = np.lexsort((more, words))
    if not (_equals(words[order]) & _equals(more[order])).any():
        return order
    return pc.array_sort_indices(keys).to_numpy().astype(np.int64)


def _equals(numbers: Any) -> Any:
    """Return of which numbers the next one is the same."""
    return numbers[1:] == numbers[:-1]


def _words(keys: pa.Array, start: int) -> Any:
    """Return the eight bytes of each key from a place on, as a number; what is not there is zero."""
    _, offsets, data = keys.cast(pa.binary()).buffers()
    edges = np.frombuffer(offsets, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    held = np.frombuffer(data or b"", dtype=np.uint8)[: edges[-1]]
    letters = np.concatenate([held, np.zeros(_WORD, dtype=np.uint8)])
    at_each_byte = np.ndarray((len(held) + 1,), dtype=">u8", buffer=letters, strides=(1,))
    begins = np.minimum(edges[:-1] + start, edges[1:])
    there = np.minimum(edges[1:] - begins, _WORD)
    return at_each_byte[begins].astype(np.uint64) & _FIRST[there]
