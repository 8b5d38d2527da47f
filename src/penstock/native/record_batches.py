"""The twin of ``_record_batches.c``, by the letter of the format, which is written there.

It is what the C is compared with, and says how large a row is in the log. It is not fast enough to write with (its checksum alone takes
0.1 µs a byte): where the C was not built, ``log`` has librdkafka write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from struct import Struct
from typing import Any, TypeAlias

import numpy as np

from penstock.native.columns import BytesColumn, array_of

#: pairs of a name and bytes or None; bytes of a name that are not UTF-8 are kept as surrogates
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

_FRAME = Struct(">qiibIhiqqqhii")
FRAME = _FRAME.size
_AFTER_LENGTH, _AFTER_CRC, _TRANSACTIONAL = 12, 21, 16
#: rows that may go anywhere take turns, so many at a time
_RUN = 1024


def _crc_of(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_CRC = [_crc_of(byte) for byte in range(256)]


def crc32c(data: Any, by_table: bool = True) -> int:
    """Return the checksum of bytes.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in bytes(data):
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


_M, _MASK, _SEED = 0x5BD1E995, 0xFFFFFFFF, 0x9747B28C
#: readers of n little-endian 32-bit words, for the lengths that keys usually have
_WORDS = tuple(Struct(f"<{n}I").unpack_from for n in range(33))


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash of the bytes as a signed number, as Java has it.

    >>> murmur2(b"21")
    -973932308
    """
    length = len(data)
    count = length >> 2
    h = _SEED ^ length
    words = _WORDS[count](data) if count < 33 else Struct(f"<{count}I").unpack_from(data)
    for k in words:
        k = k * _M & _MASK
        h = (h * _M ^ (k ^ k >> 24) * _M) & _MASK

    tail = data[count << 2 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK

    h = (h ^ h >> 13) * _M & _MASK
    h ^= h >> 15
    return h - 0x100000000 if h & 0x80000000 else h


def _varint(number: int) -> bytes:
    """Return a number of 64 bits, zigzag, seven bits at a time."""
    number = (number << 1 ^ number >> 63) & 0xFFFFFFFFFFFFFFFF
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def _field(data: bytes | None) -> bytes:
    return b"\1" if data is None else _varint(len(data)) + data


def _record(count: int, delta: int, key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    named = b"".join(_field(name.encode("utf-8", "surrogateescape")) + _field(data) for name, data in headers)
    body = b"\0" + _varint(delta) + _varint(count) + _field(key) + _field(value) + _varint(len(headers)) + named
    return _varint(len(body)) + body


def batch_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the bytes of a batch that holds one row, not compressed.

    >>> batch_size(b"k", b"v" * 100, (("h", b"1"),))
    175
    """
    size = 3 + _field_size(key) + _field_size(value) + _varint_size(len(headers))
    for name, data in headers:
        size += _field_size(name.encode("utf-8", "surrogateescape")) + _field_size(data)
    return FRAME + _varint_size(size) + size


def _field_size(data: bytes | None) -> int:
    return 1 if data is None else _varint_size(len(data)) + len(data)


def _varint_size(number: int) -> int:
    """Return the bytes of a number that is not negative."""
    return max(1, ((2 * number).bit_length() + 6) // 7)


class PartitionedRows:
    """Rows, by the partition that they go to, of ``spread``."""

    def __init__(
        self,
        rows: int,
        partitions: Any,
        keys: BytesColumn,
        values: BytesColumn,
        times: Any,
        headers: Sequence[Headers] | None,
        spread: int,
        turn: int,
    ) -> None:
        self.keys: list[bytes | None] = array_of(rows, *keys).to_pylist()
        self.values: list[bytes | None] = array_of(rows, *values).to_pylist()
        self.times: list[int] = np.frombuffer(times, np.int64, rows).tolist()
        self.headers = [()] * rows if headers is None else headers
        wanted = [-1] * rows if partitions is None else np.frombuffer(partitions, np.int32, rows).tolist()
        goes = [*_partitions(self.keys, wanted, spread, turn)]
        self.order = sorted(range(rows), key=goes.__getitem__)
        self._goes = [(goes[row] if goes[row] < spread else -1, at) for at, row in enumerate(self.order)]

    def runs(self) -> list[tuple[int, int, int]]:
        """Return (partition, first, last): which places of the order are for which partition; −1: for none that exists."""
        runs = [(partition, [at for _, at in some]) for partition, some in groupby(self._goes, key=itemgetter(0))]
        return [(partition, places[0], places[-1] + 1) for partition, places in runs]

    def row(self, at: int) -> int:
        """Return the number of the row at a place of the order."""
        return self.order[at]


def _partitions(keys: list[bytes | None], wanted: list[int], spread: int, turn: int) -> Iterable[int]:
    """Yield where rows go, as Java's producer does it; ``spread``: nowhere."""
    lone = 0
    for key, partition in zip(keys, wanted, strict=True):
        if partition >= 0 or not spread:
            yield partition if 0 <= partition < spread else spread
        elif key is not None:
            yield (murmur2(key) & 0x7FFFFFFF) % spread
        else:
            yield (turn + lone // _RUN) % spread
            lone += 1


class RecordBatch(bytearray):
    """A batch of one partition: a frame, and records."""

    def __init__(self) -> None:
        super().__init__(FRAME)
        self._times: list[int] = []

    @property
    def count(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return len(self._times)

    def add(self, rows: PartitionedRows, first: int, last: int, limit: int, largest: int) -> int:
        """Write rows at places of their order until the batch is full; return the next. A row alone may have ``largest`` bytes."""
        for at in range(first, last):
            row = rows.order[at]
            time = rows.times[row] or 1
            delta = (time - (self._times[0] if self._times else time) + 2**63) % 2**64 - 2**63  # as 64 bits hold it
            record = _record(self.count, delta, rows.keys[row], rows.values[row], rows.headers[row])
            if len(self) + len(record) > (limit if self.count else largest):
                return at
            self += record
            self._times.append(time)
        return last

    def replace(self, records: Any) -> None:  # type: ignore[override]
        """Put the same records in another form, compressed."""
        self[FRAME:] = bytes(records)

    def seal(self, identity: int, epoch: int, sequence: int, transactional: bool, codec: int) -> None:
        """Write the frame."""
        length, attributes = len(self) - _AFTER_LENGTH, codec | (_TRANSACTIONAL if transactional else 0)
        times = self._times[0], max(self._times)
        frame = (attributes, self.count - 1, *times, identity, epoch, sequence, self.count)
        self[:FRAME] = _FRAME.pack(0, length, -1, 2, 0, *frame)
        self[:FRAME] = _FRAME.pack(0, length, -1, 2, crc32c(self[_AFTER_CRC:]), *frame)

    def clear(self) -> None:
        """Empty it, to be used again."""
        del self[FRAME:]
        self._times.clear()
