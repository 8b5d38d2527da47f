"""One record of a dead-letter topic, read as a dead letter: what failed, where the record came from, and how to write it again.

Headers under ``__streams.errors.`` are those of KIP-1034, so the letters of a Kafka Streams application are read as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from penstock.log.base import LogRecord, Row, TopicPartition
from penstock.protocol.failure import HEADER_PREFIX, NODE_LINE
from penstock.record import Headers

#: headers of a record that was redriven: ``letter`` (which one it was), ``time`` (when, in milliseconds), ``count`` (how often by now)
REDRIVE_PREFIX = "__penstock.redrive."
#: the first header that a failure adds: what is before it is the record's own; a late record has no exception
_FIRST, _FIRST_OF_LATE, _LATE = (HEADER_PREFIX + name for name in ("exception", "message", "late-by-ms"))


@dataclass(frozen=True)
class DeadLetter:
    """A dead letter. What its headers do not say is None: a late record has no exception, a letter of Kafka's no node.

    >>> told = [("own", b"1"), (_FIRST, b"ValueError"), (f"{HEADER_PREFIX}topic", b"in"), (f"{HEADER_PREFIX}partition", b"2"),
    ...         (f"{HEADER_PREFIX}offset", b"7"), (f"{HEADER_PREFIX}stacktrace", b"at node: parse\\n")]
    >>> letter = DeadLetter(LogRecord("dead", 0, 5, b"k", b"v", 9, tuple(told)))
    >>> letter.name, letter.source, letter.offset, letter.node, letter.exception
    ('dead-0@5', ('in', 2), 7, 'parse', 'ValueError')
    >>> letter.headers, letter.redrives
    ((('own', b'1'),), 0)
    """

    record: LogRecord

    @property
    def position(self) -> tuple[int, int]:
        """Partition and offset in the dead-letter topic."""
        return self.record.partition, self.record.offset

    @property
    def name(self) -> str:
        """Topic, partition and offset of the letter, as messages write them."""
        return f"{self.record.topic}-{self.record.partition}@{self.record.offset}"

    @cached_property
    def details(self) -> dict[str, str]:
        """What its headers say about the failure, by the name without its prefix."""
        added = self.record.headers[self._own :]
        return {name.removeprefix(HEADER_PREFIX): text.decode(errors="replace") for name, text in added if text}

    @property
    def node(self) -> str | None:
        """The node that failed; of a row that a topic refused the sinks that may have written it."""
        last = self.details.get("stacktrace", "").rstrip("\n").rpartition("\n")[2]
        return self.details.get("node") or (last.removeprefix(NODE_LINE) if last.startswith(NODE_LINE) else None)

    @property
    def exception(self) -> str | None:
        """The type of what was raised."""
        return self.details.get("exception")

    @property
    def reason(self) -> str | None:
        """What was raised, or what was missed, in words."""
        return self.details.get("message")

    @property
    def source(self) -> TopicPartition | None:
        """Topic and partition of the record that failed; None if no record was at hand (a punctuation, a schedule)."""
        topic, partition = self.details.get("topic"), _number(self.details.get("partition"))
        return None if topic is None or partition is None or partition < 0 else (topic, partition)

    @property
    def offset(self) -> int | None:
        """The offset of the record that failed."""
        return _number(self.details.get("offset"))

    @property
    def source_name(self) -> str | None:
        """Topic, partition and offset of the record that failed, as messages write them."""
        return None if self.source is None else f"{self.source[0]}-{self.source[1]}@{self.offset}"

    @property
    def timestamp(self) -> int:
        """The time of the record when it failed, also where the dead-letter topic did not take that time."""
        told = _number(self.details.get("timestamp"))
        return self.record.timestamp if told is None else told

    @cached_property
    def headers(self) -> Headers:
        """The headers of the record: without those of this failure and of an earlier redrive."""
        own = self.record.headers[: self._own]
        return tuple(each for each in own if not each[0].startswith(REDRIVE_PREFIX))

    @property
    def redrives(self) -> int:
        """How often the record had been redriven before it failed this time."""
        told = dict(self.record.headers[: self._own]).get(f"{REDRIVE_PREFIX}count")
        return (_number(told.decode(errors="replace")) if told else None) or 0

    @property
    def identity(self) -> tuple[object, ...]:
        """What letters of one record have in common: it may have failed at several nodes, or missed several windows."""
        record = self.record
        if self.source is None:
            return record.partition, record.offset
        return *self.source, self.offset, record.key, record.value

    def again(self, now: int) -> Row:
        """Return the row that brings the record back: into its partition, as it was, with headers that say what it is."""
        assert self.source is not None, "a letter without a source record is never redriven"
        told = {"letter": self.name, "time": str(now), "count": str(self.redrives + 1)}
        added = tuple((REDRIVE_PREFIX + name, text.encode()) for name, text in told.items())
        record = self.record
        return *self.source, record.key, record.value, self.timestamp, (*self.headers, *added)

    @cached_property
    def _own(self) -> int:
        """How many headers are the record's own. INVARIANT: a failure adds its headers behind them, and each name once.

        A record that was read from another dead-letter topic has such headers of its own: they stay.
        """
        headers, seen = self.record.headers, set[str]()
        for at in range(len(headers) - 1, -1, -1):
            name = headers[at][0]
            if not name.startswith(HEADER_PREFIX) or name in seen:
                return at + 1
            if name == (_FIRST_OF_LATE if _LATE in seen else _FIRST):
                return at
            seen.add(name)
        return 0


def _number(text: str | None) -> int | None:
    """Return a number that a header tells, None if it tells none.

    >>> _number("7"), _number("seven"), _number(None)
    (7, None, None)
    """
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
