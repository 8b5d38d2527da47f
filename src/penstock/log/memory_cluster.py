"""What a cluster in memory holds: topics, groups, who owns which transactional id.

A partition is a list; an offset is a place in it. A row belongs to a transaction (or to none) and is read by what became of
that one. As in Kafka the end of a transaction leaves a marker, which takes an offset and no reader sees; so offsets agree
with those of a real cluster, too. Nothing is deleted by age or compacted; what is deleted by request stays in the list, before the
place where the partition begins.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from penstock.clock import Clock
from penstock.errors import TopicError
from penstock.log.base import LogRecord, Offsets, TopicPartition


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
    #: partition → where it begins, if something was deleted
    begins: dict[int, int] = field(default_factory=dict)
    topic_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    replication: int = 1


class MemoryCluster:
    """The rows of all topics. INVARIANT: whoever reads or changes more than one thing holds ``lock``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lock = threading.RLock()
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Offsets] = {}
        self.owners: dict[str, object] = {}
        self.open: dict[str, Transaction] = {}
        #: how many brokers it is said to have
        self.brokers = 1

    def entries(self, place: TopicPartition) -> list[Entry]:
        """Return what a partition holds."""
        topic, partition = place
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            raise TopicError(
                f"there is no {topic}-{partition}: create it (`penstock topics create`), with enough partitions"
            )
        return found.partitions[partition]

    def begin(self, place: TopicPartition) -> int:
        """Return where a partition begins."""
        assert self.entries(place) is not None
        return self.topics[place[0]].begins.get(place[1], 0)

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
