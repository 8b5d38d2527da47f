"""The log whose body is memory: the same contract as Kafka's, for tests of the engine without a broker.

A partition is a list; an offset is a place in it. A row belongs to a transaction (or to none) and is read by what became of
that one. As in Kafka the end of a transaction leaves a marker, which takes an offset and no reader sees; so offsets agree
with those of a real cluster, too. Nothing is deleted by age or compacted.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import TypeAlias

from penstock.clock import Clock, SystemClock
from penstock.errors import BrokerError, FencedError, ProductionError, TopicError
from penstock.log.base import LogRecord, Offsets, OnRefused, Row, TopicPartition, TopicSpec
from penstock.log.partitioner import partition_for
from penstock.log.topics import check_configs, check_partitions

#: what a topic has that was made without a wish
DEFAULTS = {"cleanup.policy": "delete", "retention.ms": "-1", "min.compaction.lag.ms": "0"} | {
    "message.timestamp.type": "CreateTime"
}
MAX_MESSAGE_BYTES = 1_000_000


class Outcome(Enum):
    """What became of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True, eq=False)
class Transaction:
    """Rows and offsets that share their fate."""

    outcome: Outcome = Outcome.OPEN
    places: set[TopicPartition] = field(default_factory=set)
    offsets: dict[str, Offsets] = field(default_factory=dict)


#: timestamp; the record, None for a marker; its transaction, None if it was written without one
Entry: TypeAlias = tuple[int, LogRecord | None, Transaction | None]


@dataclass(slots=True)
class Topic:
    """The partitions of a topic, and its settings."""

    configs: dict[str, str]
    partitions: list[list[Entry]]


class MemoryLog:
    """A cluster in memory, and the clients to use it with. Its clients may be used from several threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.lock = threading.RLock()
        self.stored: dict[str, Topic] = {}
        self.groups: dict[str, Offsets] = {}
        self.owners: dict[str, MemoryProducer] = {}
        self._admin = MemoryAdmin(self)

    @property
    def admin(self) -> MemoryAdmin:
        """The one admin client."""
        return self._admin

    def producer(self, transactional_id: str | None) -> MemoryProducer:
        """Make a producer: transactional, or without an id one that writes at least once."""
        return MemoryProducer(self, transactional_id)

    def reader(self, *, committed: bool = True, timeout: float | None = None) -> MemoryReader:
        """Make a reader of committed records, or of all; there is nothing to wait for."""
        return MemoryReader(self, committed)

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def entries(self, place: TopicPartition) -> list[Entry]:
        """Return what a partition holds."""
        topic, partition = place
        found = self.stored.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            raise TopicError(
                f"there is no {topic}-{partition}: create it (`penstock topics create`), with enough partitions"
            )
        return found.partitions[partition]

    def stable_end(self, place: TopicPartition) -> int:
        """Return the offset of the first row of an open transaction, else the end."""
        entries = self.entries(place)
        for offset, (_, _, transaction) in enumerate(entries):
            if transaction is not None and transaction.outcome is Outcome.OPEN:
                return offset
        return len(entries)

    def finish(self, transaction: Transaction, outcome: Outcome) -> None:
        """End a transaction: all of it becomes visible, or nothing, and a marker follows its rows."""
        with self.lock:
            for place in transaction.places:
                self.entries(place).append((self._clock.now_ms(), None, None))
            if outcome is Outcome.COMMITTED:
                for group, offsets in transaction.offsets.items():
                    self.groups.setdefault(group, {}).update(offsets)
            transaction.outcome = outcome


class MemoryAdmin:
    """Topics, offsets and groups of a cluster in memory."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    def topics(self) -> dict[str, int]:
        """Return every topic with the number of its partitions."""
        return {name: len(topic.partitions) for name, topic in sorted(self._log.stored.items())}

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic; raise ``TopicError`` if one is missing."""
        return {name: len(self._topic(name).partitions) for name in topics}

    def matching(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the names of the topics that match a pattern as a whole, sorted."""
        return [name for name in self.topics() if pattern.fullmatch(name)]

    def ensure_topics(self, specs: Iterable[TopicSpec]) -> list[str]:
        """Create the topics that are missing, check those that exist; return the names of the new ones."""
        created = []
        with self._log.lock:
            for spec in specs:
                if spec.name in self._log.stored:
                    check_partitions(spec, len(self._topic(spec.name).partitions))
                    check_configs(spec, self.configs(spec.name))
                else:
                    count = 1 if spec.partitions == -1 else spec.partitions
                    self._log.stored[spec.name] = Topic(DEFAULTS | dict(spec.configs), [[] for _ in range(count)])
                    created.append(spec.name)
        return created

    def configs(self, topic: str) -> dict[str, str]:
        """Return the settings of a topic."""
        return dict(self._topic(topic).configs)

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Change settings of a topic; the others stay."""
        self._topic(topic).configs.update(configs)

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics; one that does not exist is no error."""
        for name in names:
            self._log.stored.pop(name, None)

    def earliest_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where each partition begins."""
        return {place: 0 for place in partitions if self._log.entries(place) is not None}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where each partition ends, open transactions counted."""
        return {place: len(self._log.entries(place)) for place in partitions}

    def stable_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the last stable offset of each partition: no transaction is open below it."""
        with self._log.lock:
            return {place: self._log.stable_end(place) for place in partitions}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset whose timestamp is at least the given one, None where there is none."""
        return {place: self._first_at(place, time) for place, time in times.items()}

    def committed(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Offsets:
        """Return the offsets that a group has committed, of these partitions or of all."""
        found = dict(self._log.groups.get(group, {}))
        return found if partitions is None else {place: found[place] for place in partitions if place in found}

    def delete_group(self, group: str) -> None:
        """Forget a group and its offsets; one that does not exist is no error."""
        self._log.groups.pop(group, None)

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def _topic(self, name: str) -> Topic:
        if name not in self._log.stored:
            raise TopicError(
                f"there is no topic {name!r}: create it (`penstock topics create`), with enough partitions"
            )
        return self._log.stored[name]

    def _first_at(self, place: TopicPartition, time: int) -> int | None:
        entries = self._log.entries(place)[: self._log.stable_end(place)]
        return next((offset for offset, (timestamp, _, _) in enumerate(entries) if timestamp >= time), None)


class MemoryProducer:
    """One writer to a cluster in memory; with an id it is transactional, and fenced by the next one of that id."""

    def __init__(self, log: MemoryLog, transactional_id: str | None) -> None:
        self._log = log
        self._id = transactional_id
        self._transaction: Transaction | None = None
        self._failure: BrokerError | None = None
        self._random = Random(transactional_id)

    def init(self) -> None:
        """Take over from any earlier producer of the same id: it is fenced, its open transaction is aborted."""
        if self._id is None:
            return
        with self._log.lock:
            earlier = self._log.owners.get(self._id)
            self._log.owners[self._id] = self
            if earlier is not None and earlier is not self and earlier._transaction is not None:
                self._log.finish(earlier._transaction, Outcome.ABORTED)

    def begin(self) -> None:
        """Open a transaction."""
        if self._transaction is not None:
            raise BrokerError("could not begin a transaction: one is open", fatal=True)
        self._transaction = Transaction()
        self._failure = None

    def produce(self, rows: Iterable[Row], on_refused: OnRefused | None = None) -> None:
        """Append rows. One that is too large goes to ``on_refused``, else raises ``ProductionError``."""
        for row in rows:
            if len(row[2] or b"") + len(row[3] or b"") < MAX_MESSAGE_BYTES:
                self._append(row)
                continue
            refused = ProductionError(f"a row for {row[0]} was refused: it is too large")
            if on_refused is None:
                raise refused
            on_refused(row, refused)

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the offsets of a group with the transaction."""
        self._check_owner()
        self._open().offsets.setdefault(group, {}).update(offsets)

    def flush(self) -> None:
        """Raise what went wrong with a row, as the end of its delivery would."""
        self._check_owner()
        if self._failure is not None:
            raise self._failure

    def commit(self) -> None:
        """Make everything since ``begin`` visible."""
        self.flush()
        self._log.finish(self._open(), Outcome.COMMITTED)
        self._transaction = None

    def abort(self) -> None:
        """Forget everything since ``begin``."""
        self._check_owner()
        self._log.finish(self._open(), Outcome.ABORTED)
        self._transaction = self._failure = None

    def close(self) -> None:
        """Leave an open transaction to the next ``init``."""

    def _append(self, row: Row) -> None:
        """Add a row to its partition. A fault shows at ``flush``, as it does where a network lies between."""
        topic, partition, key, value, timestamp, headers = row
        with self._log.lock:
            if self._fenced():
                return
            place = (topic, self._place(topic, key) if partition is None else partition)
            try:
                entries = self._log.entries(place)
            except TopicError as error:
                error.abortable = True
                self._failure = self._failure or error
                return
            record = LogRecord(*place, len(entries), key, value, timestamp or 1, tuple(headers))
            transaction = self._open() if self._id is not None else None
            if transaction is not None:
                transaction.places.add(place)
            entries.append((record.timestamp, record, transaction))

    def _place(self, topic: str, key: bytes | None) -> int:
        found = self._log.stored.get(topic)
        count = len(found.partitions) if found is not None else 1
        return self._random.randrange(count) if key is None else partition_for(key, count)

    def _open(self) -> Transaction:
        if self._transaction is None:
            raise BrokerError("there is no transaction: begin one", fatal=True)
        return self._transaction

    def _fenced(self) -> bool:
        return self._id is not None and self._log.owners.get(self._id) is not self

    def _check_owner(self) -> None:
        if self._fenced():
            raise FencedError(
                f"another instance with the id {self._id!r} has taken over. Only one instance runs at a time: this one stops "
                "and has committed nothing",
                fatal=True,
            )


class MemoryReader:
    """Reads the records of a cluster in memory."""

    def __init__(self, log: MemoryLog, committed: bool) -> None:
        self._log = log
        self._committed = committed

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[LogRecord]:
        """Yield the records with start <= offset < end, in order."""
        if start >= end:
            return
        place = (topic, partition)
        with self._log.lock:
            entries = self._log.entries(place)[:]
            last = self._log.stable_end(place) if self._committed else len(entries)
        if start < 0 or start > last:
            raise BrokerError(f"could not read {topic}-{partition} from {start}: there is no such offset")
        yield from filter(None, map(self._visible, entries[start : min(end, last)]))
        if end > last:
            raise BrokerError(
                f"{topic}-{partition} was to be read up to {end}, but nothing comes after {last}: "
                "a transaction is open there, or the topic was made anew",
                retriable=True,
            )

    def last_record(self, topic: str, partition: int = 0) -> LogRecord | None:
        """Return the last committed record of a partition, None if there is none."""
        end = self._log.stable_end((topic, partition))
        return next(filter(None, map(self._visible, reversed(self._log.entries((topic, partition))[:end]))), None)

    def follow(self, starts: Mapping[TopicPartition, int]) -> Iterator[LogRecord | None]:
        """Yield the records of several partitions as they come, for ever; None when there is nothing new."""
        positions = dict(starts)
        while True:
            before = dict(positions)
            for place, start in before.items():
                end = self._log.stable_end(place) if self._committed else len(self._log.entries(place))
                positions[place] = max(start, end)
                yield from self.read(*place, start, end)
            if positions == before:
                yield None

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def _visible(self, entry: Entry) -> LogRecord | None:
        _, record, transaction = entry
        if not self._committed or transaction is None or transaction.outcome is Outcome.COMMITTED:
            return record
        return None
