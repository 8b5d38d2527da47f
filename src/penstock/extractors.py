"""Timestamp extractors: how a source finds a record's event time when it is not simply the record's timestamp.

An extractor is ``f(record)`` or ``f(record, partition_time)``; ``record`` has key, value, timestamp, headers, topic, partition and
offset, ``partition_time`` is the greatest timestamp read so far from that partition (−1 at first). A negative result drops the record.
"""

from __future__ import annotations

from typing import Any

from penstock.errors import TimestampError


def fail_on_invalid(record: Any, partition_time: int) -> int:
    """Take the record's timestamp; a negative one is an error. This is what a source does without an extractor."""
    if record.timestamp < 0:
        raise TimestampError(f"the record {record!r} has the invalid timestamp {record.timestamp}")
    return int(record.timestamp)


def skip_on_invalid(record: Any, partition_time: int) -> int:
    """Take the record's timestamp; a record with a negative one is dropped and counted."""
    return int(record.timestamp)


def partition_time_on_invalid(record: Any, partition_time: int) -> int:
    """Take the record's timestamp, or the partition's time where that is negative."""
    if record.timestamp >= 0:
        return int(record.timestamp)
    if partition_time < 0:
        raise TimestampError(
            f"the record {record!r} has the invalid timestamp {record.timestamp}, and no record came before it"
        )
    return partition_time


def wall_clock(record: Any, partition_time: int) -> int:
    """Take the time at which the record is processed. The lane recognises this function and asks its own clock."""
    raise TimestampError("wall_clock is answered by the lane's clock and is never called")


class TimestampExtractor:
    """The built-in extractors by name.

    >>> from penstock import StreamsBuilder
    >>> _ = StreamsBuilder().stream("t", timestamp=TimestampExtractor.partition_time_on_invalid)
    >>> _ = StreamsBuilder().stream("t", timestamp=lambda record: record.value["at"])
    """

    fail_on_invalid = staticmethod(fail_on_invalid)
    skip_on_invalid = staticmethod(skip_on_invalid)
    partition_time_on_invalid = staticmethod(partition_time_on_invalid)
    wall_clock = staticmethod(wall_clock)
