"""Messages of the client as columns: what they hold is asked for without a step of Python for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from confluent_kafka import Message

from penstock.record import Headers

_time = itemgetter(1)


class RangeRows(NamedTuple):
    """Records of one partition that follow each other, by column."""

    topic: str
    partition: int
    #: a range, where none is missing
    offsets: Sequence[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    #: None: no record has any
    headers: list[Headers] | None


def rows_of(topic: str, partition: int, messages: list[Message]) -> RangeRows:
    """Return what messages of a partition hold; none of them is an error."""
    offsets: Any = ()
    if messages:
        first, last = messages[0].offset() or 0, messages[-1].offset() or 0
        all_there = last - first == len(messages) - 1
        offsets = range(first, last + 1) if all_there else list(map(Message.offset, messages))
    keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
    times = list(map(_time, map(Message.timestamp, messages)))
    given: list[Any] = list(map(Message.headers, messages))
    headers = [tuple(pairs) if pairs else () for pairs in given] if any(given) else None
    return RangeRows(topic, partition, offsets, keys, values, times, headers)
