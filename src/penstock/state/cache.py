"""How much the cached stores of a task may hold back before they forward (the setting ``cache_max_bytes``).

A cache may skip an update of a key, never change the last one: what is forwarded earlier is forwarded again if it changes.
"""

from __future__ import annotations

from collections.abc import Hashable


class CacheBudget:
    """Counts the bytes of updates that are held back. ``limit``: None has no end, 0 holds back nothing.

    >>> budget = CacheBudget(10)
    >>> budget.hold(("counts", b"a"), 6)
    >>> budget.hold(("counts", b"a"), 8)  # instead of the one before
    >>> budget.is_full
    False
    >>> budget.hold(("counts", b"b"), 6)
    >>> budget.is_full
    True
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.used = 0
        self._held: dict[Hashable, int] = {}

    @property
    def forwards_each(self) -> bool:
        """Whether every update is forwarded as it is made."""
        return self.limit == 0

    @property
    def counts(self) -> bool:
        """Whether it has to be told of updates."""
        return bool(self.limit)

    @property
    def is_full(self) -> bool:
        """Whether the stores are to forward."""
        return bool(self.limit) and self.used > self.limit  # type: ignore[operator]

    def hold(self, row: Hashable, size: int) -> None:
        """Count an update of a row that is held back, instead of the one before it."""
        self.used += size - self._held.get(row, 0)
        self._held[row] = size

    def add(self, size: int) -> None:
        """Count updates whose rows are not known one by one."""
        self.used += size

    def clear(self) -> None:
        """All was forwarded."""
        self.used = 0
        self._held.clear()


def budget_of_shard(cache_max_bytes: int | None, shards: int) -> int | None:
    """Return what one shard may hold back: its part of the whole, which does not depend on the number of lanes.

    >>> budget_of_shard(None, 16), budget_of_shard(0, 16), budget_of_shard(1600, 16), budget_of_shard(3, 16)
    (None, 0, 100, 1)
    """
    return cache_max_bytes and max(1, cache_max_bytes // shards)
