"""Read the letters of a dead-letter topic: all that are committed now, or one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.dead_letters.letter import DeadLetter
from penstock.errors import TopicError
from penstock.log.base import Log, Offsets, Reader


def topic_ends(log: Log, topic: str) -> Offsets:
    """Return where each partition of a dead-letter topic ends now: no transaction is open below it."""
    count = log.admin.partitions([topic])[topic]
    return log.admin.stable_offsets([(topic, number) for number in range(count)])


def read_letters(log: Log, ends: Mapping[tuple[str, int], int], *, most: int | None = None) -> Iterator[DeadLetter]:
    """Yield the letters below some ends, by partition and offset; ``most``: only so many offsets of each partition, the last."""
    reader = log.reader()
    starts = log.admin.earliest_offsets(ends)
    if most is not None:
        starts = {place: max(start, ends[place] - most) for place, start in starts.items()}
    try:
        yield from _read(reader, starts, ends)
    finally:
        reader.close()


def _read(reader: Reader, starts: Offsets, ends: Mapping[tuple[str, int], int]) -> Iterator[DeadLetter]:
    for place in sorted(ends):
        for record in reader.read(*place, starts[place], ends[place]):
            yield DeadLetter(record)


def read_some(log: Log, topic: str, positions: Iterable[tuple[int, int]]) -> Iterator[DeadLetter]:
    """Yield the letters at some positions, in this order; raise ``TopicError`` at one that is not there."""
    ends = topic_ends(log, topic)
    starts = log.admin.earliest_offsets(ends)
    reader = log.reader()
    try:
        for partition, offset in positions:
            place = (topic, partition)
            if place not in ends:
                raise TopicError(f"{topic} has no partition {partition}: it has {len(ends)}, from 0 on")
            if not starts[place] <= offset < ends[place]:
                raise TopicError(
                    f"there is no letter {topic}-{partition}@{offset}: the partition has offsets from {starts[place]} to "
                    f"{ends[place] - 1} (`penstock dead-letters list` shows the letters)"
                )
            found = [*reader.read(topic, partition, offset, offset + 1)]
            if not found:
                raise TopicError(
                    f"there is no letter {topic}-{partition}@{offset}: at this offset is the end of a transaction, or a record that "
                    "was never committed (`penstock dead-letters list` shows the letters)"
                )
            yield DeadLetter(found[0])
    finally:
        reader.close()
