"""Which partition a key goes to: murmur2 of its bytes, as Kafka's Java producer does it.

Java producers and Kafka Streams place every key this way, so topics written by them and by us are co-partitioned.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C

#: Readers of n little-endian 32-bit words, for the lengths that keys usually have.
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


@lru_cache(maxsize=1 << 16)  # the same keys come again and again, and the hash takes longer than to find it
def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition, of so many, that a record with this key goes to.

    >>> partition_for(b"a-key", 8) == partition_for(b"a-key", 8)
    True
    >>> partition_for(b"21", 4)
    0
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions
