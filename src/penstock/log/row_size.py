"""How many bytes a row takes in the log: what a topic's ``max.message.bytes`` is compared with."""

from __future__ import annotations

from penstock.log.base import Row
from penstock.native.record_batches import batch_size


def row_bytes(row: Row) -> int:
    """Return the size of a batch that holds this row alone, not compressed.

    >>> row_bytes(("t", 0, b"k", b"v" * 100, 5, (("h", b"1"),)))
    175
    """
    return batch_size(row[2], row[3], row[5])
