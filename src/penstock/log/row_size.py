"""How many bytes a row takes in the log: what a topic's ``max.message.bytes`` is compared with.

::

    batch    61 bytes of frame  record...
    record   length  attributes (1)  time delta  offset delta  key  value  headers  { name  value }

Keys, names and values have their length before them. Lengths, deltas and counts are varints in zigzag. A row that is alone in
its batch has deltas of 0.
"""

from __future__ import annotations

from penstock.log.base import Row
from penstock.record import raw_name

FRAME = 61


def row_bytes(row: Row) -> int:
    """Return the size of a batch that holds this row alone, not compressed.

    >>> row_bytes(("t", 0, b"k", b"v" * 100, 5, (("h", b"1"),)))
    175
    """
    _, _, key, value, _, headers = row
    size = 3 + _field(key) + _field(value) + _varint(len(headers))
    for name, data in headers:
        size += _field(raw_name(name)) + _field(data)
    return FRAME + _varint(size) + size


def _field(data: bytes | None) -> int:
    return 1 if data is None else _varint(len(data)) + len(data)


def _varint(number: int) -> int:
    """Return the bytes of a number that is not negative."""
    return max(1, ((2 * number).bit_length() + 6) // 7)
