"""How a sink chooses a partition when the user does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.log.partitioner import partition_for
from penstock.serde import Serde, SessionWindowedSerde, WindowedSerde
from penstock.topology.node import Partitioner


@dataclass(frozen=True, slots=True)
class ByInnerKey:
    """Send all windows of a key to the partition of that key.

    >>> from penstock import Serdes, Windowed
    >>> by_key = ByInnerKey(Serdes.string)
    >>> by_key("out", Windowed("a", 0, 10), 1, 8) == by_key("out", Windowed("a", 10, 20), 1, 8)
    True
    """

    inner: Serde[Any]

    def __call__(self, topic: str, key: Any, value: Any, partitions: int) -> int | None:
        """Return the partition of the key without its window."""
        return None if key is None else partition_for(self.inner.serialize(key.key), partitions)


def default_partitioner(key: Serde[Any]) -> Partitioner | None:
    """Return the partitioner for keys of this serde; None: by the bytes of the key."""
    return ByInnerKey(key.inner) if isinstance(key, WindowedSerde | SessionWindowedSerde) else None
