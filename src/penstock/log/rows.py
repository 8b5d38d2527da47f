"""Records of a partition as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Message

from penstock.log.base import LogRecord
from penstock.log.native import array_of
from penstock.record import Headers

_time = itemgetter(1)


class RangeRows(NamedTuple):
    """Records of one partition that follow each other, by column."""

    topic: str
    partition: int
    offsets: npt.NDArray[np.int64]
    #: arrays of bytes
    keys: pa.Array
    values: pa.Array
    timestamps: npt.NDArray[np.int64]
    #: None: no record has any
    headers: list[Headers] | None

    @property
    def size(self) -> int:
        """How many records."""
        return len(self.offsets)


def rows_of(topic: str, partition: int, messages: list[Message]) -> RangeRows:
    """Return what messages of a partition hold, of which none is an error, without a step of Python for each of them."""
    offsets = np.fromiter(map(Message.offset, messages), np.int64, len(messages))
    times = np.fromiter(map(_time, map(Message.timestamp, messages)), np.int64, len(messages))
    keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
    given: list[Any] = list(map(Message.headers, messages))
    headers = [tuple(pairs) if pairs else () for pairs in given] if any(given) else None
    return RangeRows(
        topic, partition, offsets, pa.array(keys, pa.binary()), pa.array(values, pa.binary()), times, headers
    )


def rows_taken(topic: str, partition: int, taken: tuple[Any, ...]) -> RangeRows:
    """Return what ``_native.take`` has read."""
    count, offsets, keys, values, times, headers = taken
    numbers, stamps = np.frombuffer(offsets, np.int64), np.frombuffer(times, np.int64)
    return RangeRows(topic, partition, numbers, array_of(count, *keys), array_of(count, *values), stamps, headers)


def records_of(rows: RangeRows) -> Iterator[LogRecord]:
    """Yield rows one by one."""
    keys, values = rows.keys.to_pylist(), rows.values.to_pylist()
    headers: Iterable[Headers] = repeat(()) if rows.headers is None else rows.headers
    for offset, key, value, time, given in zip(
        rows.offsets.tolist(), keys, values, rows.timestamps.tolist(), headers, strict=False
    ):
        yield LogRecord(rows.topic, rows.partition, offset, key, value, time, given)
