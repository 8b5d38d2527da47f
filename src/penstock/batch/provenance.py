"""Provenance: which source record each record of a batch comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.record import Origin


class Provenance:
    """Where the source records of a batch are from, as numbers; an `Origin` is made of them when it is asked for."""

    __slots__ = ("arrays", "count", "indexes", "located", "origin", "places", "times")

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
        #: where records of several sources go together: the place of each among all of them
        self.places: Any = None
        #: where each is in the order of the epoch, once somebody has asked (``lane.task_time``)
        self.located: Any = None


def are_alike(numbers: Sequence[Mapping[str, Any]]) -> bool:
    """Whether numbers of origins of several batches may be put together: those behind a re-key have more."""
    return len({tuple((name, column.shape[1:]) for name, column in some.items()) for some in numbers}) == 1


def provenance_of(origins: Sequence[Origin]) -> Provenance:
    """Return the provenance of records whose origins are known."""

    def indexes() -> Any:
        return np.array([origin.partition_index for origin in origins], dtype=np.int64)

    def times() -> Any:
        return np.array([origin.timestamp for origin in origins], dtype=np.int64)

    return Provenance(origins.__getitem__, indexes, times, len(origins))
