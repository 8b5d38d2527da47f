"""Murmur3 of many rows at a time, as numbers of 64 bits: what ``murmur3_128`` gives for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.serde.murmur3 import C1, C2, SEED, murmur3_128

#: rows with more words are hashed by themselves: all would wait for them
_MOST_WORDS = 128
#: leaves so many bytes of a word
_LAST = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)
_C1, _C2, _FIVE = np.uint64(C1), np.uint64(C2), np.uint64(5)
_ADD1, _ADD2 = np.uint64(0x52DCE729), np.uint64(0x38495AB5)
_SPREAD1, _SPREAD2, _33 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(33)


def murmur3_128_of(rows: pa.Array) -> pa.Array:
    """Return the hash of each row; of null it is null.

    >>> murmur3_128_of(pa.array([b"penstock", None])).to_pylist() == [murmur3_128(b"penstock"), None]
    True
    """
    held, edges = bytes_and_edges(rows)
    lengths = edges[1:] - edges[:-1]
    words = (lengths + 7) // 8
    order = np.argsort(-lengths, kind="stable")  # rows that have a word, or a block, are always the first ones
    begins, sizes = edges[:-1][order].astype(np.int64), lengths[order].astype(np.int64)
    long = int(np.searchsorted(-words[order], -_MOST_WORDS, side="left"))
    hashes = np.empty((len(order), 2), dtype=">u8")
    hashes[long:, 0], hashes[long:, 1] = _hashed(held, begins[long:], sizes[long:])
    found = np.empty((len(order), 2), dtype=">u8")
    found[order] = hashes
    for at in order[:long].tolist():
        found[at] = np.frombuffer(murmur3_128(rows[at].as_py() or b""), dtype=">u8")
    valid = rows.is_valid().buffers()[1] if rows.null_count else None
    fixed = pa.Array.from_buffers(pa.binary(16), len(rows), [valid, pa.py_buffer(found.tobytes())])
    return fixed.cast(pa.binary())


def bytes_and_edges(rows: pa.Array) -> tuple[Any, Any]:
    """Return the bytes of all rows, and where each begins and ends among them."""
    _, offsets, data = rows.cast(pa.binary()).buffers()
    edges = np.frombuffer(offsets, dtype=np.int32)[rows.offset : rows.offset + len(rows) + 1]
    return np.frombuffer(data or b"", dtype=np.uint8)[: edges[-1]], edges


def _hashed(held: Any, begins: Any, sizes: Any) -> tuple[Any, Any]:
    """Return both halves of the hashes of rows of which the first ones are the longest."""
    letters = np.concatenate([held, np.zeros(8, dtype=np.uint8)])
    at_each_byte = np.ndarray((len(held) + 1,), dtype="<u8", buffer=letters, strides=(1,))
    words = (sizes + 7) // 8

    def word(number: int) -> Any:
        """Return the words of this number, of the rows that have it; what is behind the end of a row is zero."""
        count = int(np.searchsorted(-words, -number, side="left"))
        left = sizes[:count] - 8 * number
        return at_each_byte[begins[:count] + 8 * number].astype(np.uint64) & _LAST[np.minimum(left, 8)]

    lengths = sizes.astype(np.uint64)
    h1, h2 = (np.full(len(sizes), SEED, dtype=np.uint64) for _ in range(2))
    whole = sizes // 16
    for number in range((int(words[0]) + 1) // 2 if len(words) else 0):
        k1, k2 = word(2 * number), word(2 * number + 1)
        blocks = int(np.searchsorted(-whole, -number, side="left"))
        mixed = h1[: len(k1)] ^ _rotated(k1 * _C1, 31) * _C2
        h1[: len(k1)] = mixed  # the last words of a row, fewer than a block, are only mixed in
        h1[:blocks] = (_rotated(mixed[:blocks], 27) + h2[:blocks]) * _FIVE + _ADD1
        mixed = h2[: len(k2)] ^ _rotated(k2 * _C2, 33) * _C1
        h2[: len(k2)] = mixed
        h2[:blocks] = (_rotated(mixed[:blocks], 31) + h1[:blocks]) * _FIVE + _ADD2
    h1, h2 = h1 ^ lengths, h2 ^ lengths
    h1 = h1 + h2
    h2 = h2 + h1
    h1, h2 = _spread(h1), _spread(h2)
    h1 = h1 + h2
    return h1, h2 + h1


def _rotated(words: Any, bits: int) -> Any:
    return words << np.uint64(bits) | words >> np.uint64(64 - bits)


def _spread(h: Any) -> Any:
    """Let every bit of the input reach every bit of the output."""
    h = (h ^ h >> _33) * _SPREAD1
    h = (h ^ h >> _33) * _SPREAD2
    return h ^ h >> _33
