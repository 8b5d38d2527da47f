"""Records of a partition as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Message

from penstock.log.base import LogRecord
from penstock.native.columns import array_of
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
        """Number of records."""
        return len(self.offsets)

    def pick(self, places: Sequence[int]) -> RangeRows:
        """Return the records at some places."""
        chosen = np.array(places, np.int64)
        return self._replace(
            offsets=self.offsets[chosen],
            keys=self.keys.take(pa.array(chosen)),
            values=self.values.take(pa.array(chosen)),
            timestamps=self.timestamps[chosen],
            headers=None if self.headers is None else [self.headers[place] for place in places],
        )


def rows_of(topic: str, partition: int, messages: list[Message]) -> RangeRows:
    """Return the contents of messages of a partition, none of which is an error, without a Python call for each of them."""
    offsets = np.fromiter(map(Message.offset, messages), np.int64, len(messages))
    times = np.fromiter(map(_time, map(Message.timestamp, messages)), np.int64, len(messages))
    keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
    given = all_headers(messages)
    headers = [tuple(pairs) if pairs else () for pairs in given] if any(given) else None
    return RangeRows(
        topic, partition, offsets, pa.array(keys, pa.binary()), pa.array(values, pa.binary()), times, headers
    )


def all_headers(messages: Sequence[Message]) -> list[Any]:
    """Return the headers of messages, as the client tells them.

    Of a message with a name that is not UTF-8 the client tells nothing but that name, in what it raises, and that only once: what is
    returned has no other headers, and no value of it.
    """
    given: list[Any] = []
    while len(given) < len(messages):
        try:
            given.extend(map(Message.headers, messages[len(given) :]))  # those before one that raises are kept
        except SystemError as error:
            given.append([(_refused_name(error).decode("utf-8", "surrogateescape"), None)])
    return given


def _refused_name(error: BaseException) -> bytes:
    """Return the bytes that are not UTF-8, as an exception of the client or one of its causes has them; raise if none has."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, UnicodeDecodeError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        raise error
    return cause.object


def rows_taken(topic: str, partition: int, taken: tuple[Any, ...]) -> RangeRows:
    """Return what ``_partition_queue.take`` has read."""
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
