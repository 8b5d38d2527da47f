"""Which partition a key goes to: murmur2 of its bytes, as Kafka's Java producer does it.

Java producers and Kafka Streams place every key this way, so topics written by them and by us are co-partitioned.
"""

from __future__ import annotations

from functools import lru_cache

from penstock.native.record_batches import murmur2


@lru_cache(maxsize=1 << 16)  # the same keys come again and again, and the hash takes longer than to find it
def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition, of so many, that a record with this key goes to.

    >>> partition_for(b"a-key", 8) == partition_for(b"a-key", 8)
    True
    >>> partition_for(b"21", 4)
    0
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions
