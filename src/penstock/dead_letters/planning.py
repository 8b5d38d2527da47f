"""What a redrive would do: which records it writes, which letters that settles, and which letters it must leave."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.dead_letters.filters import LetterFilter
from penstock.dead_letters.letter import DeadLetter
from penstock.dead_letters.marks import RedriveMarks, read_marks
from penstock.dead_letters.reading import read_letters, read_some, topic_ends
from penstock.log.base import Log, Offsets, TopicPartition


class RefusedLetter(NamedTuple):
    """A letter that cannot be redriven, and why, with what to do."""

    letter: str
    source: str | None
    why: str


@dataclass
class RedrivePlan:
    """What is to be redriven from a dead-letter topic up to ``ends``.

    ``records``: by the position of the letter whose record is written, the positions of all letters of that record.
    """

    topic: str
    ends: Offsets
    marks: RedriveMarks
    records: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    refused: list[RefusedLetter] = field(default_factory=list)
    #: letters that were chosen, and redriven before
    already: int = 0

    @property
    def letters(self) -> int:
        """How many letters are settled by it."""
        return sum(map(len, self.records.values()))

    @property
    def ranges(self) -> dict[TopicPartition, tuple[int, int]]:
        """The least ranges of the dead-letter topic that have all the records: first offset, and the one after the last."""
        found: dict[TopicPartition, tuple[int, int]] = {}
        for partition, offset in self.records:
            first, after = found.get((self.topic, partition), (offset, offset + 1))
            found[self.topic, partition] = min(first, offset), max(after, offset + 1)
        return found


def plan_redrive(
    log: Log, topic: str, chosen: LetterFilter, *, ends: Offsets | None = None, settled: bool = False
) -> RedrivePlan:
    """Look at all letters below ``ends`` (now, if not given), and return what a redrive of the chosen ones would do.

    A position that has no letter raises ``TopicError``. ``settled``: see ``read_marks``.
    """
    if chosen.positions is not None:
        for _ in read_some(log, topic, sorted(chosen.positions)):
            pass
    ends = topic_ends(log, topic) if ends is None else ends
    planner = _Planner(RedrivePlan(topic, ends, read_marks(log, topic, settled=settled)), chosen, log.admin.topics())
    for letter in read_letters(log, ends):
        planner.look_at(letter)
    return planner.plan


class _Planner:
    """Looks at one letter after the other. Keeps positions and digests, no letters: there may be many, and large ones."""

    def __init__(self, plan: RedrivePlan, chosen: LetterFilter, partitions: Mapping[str, int]) -> None:
        self.plan = plan
        self._chosen = chosen
        self._partitions = partitions
        #: the letters of each record, and the one of them that is redriven
        self._same: dict[bytes, list[tuple[int, int]]] = {}
        self._redriven: set[bytes] = set()

    def look_at(self, letter: DeadLetter) -> None:
        """Add a letter to the plan, if it is chosen and was not redriven; remember it as one of its record in any case."""
        matches = self._chosen.matches(letter)
        if self.plan.marks.has(letter):
            self.plan.already += matches
            return
        record = hashlib.blake2b(repr(letter.identity).encode(), digest_size=16).digest()
        same = self._same.setdefault(record, [])
        same.append(letter.position)
        if not matches or record in self._redriven:
            return
        why = why_not(letter, self._partitions)
        if why is not None:
            self.plan.refused.append(RefusedLetter(letter.name, letter.source_name, why))
        else:
            self._redriven.add(record)
            self.plan.records[letter.position] = same


def why_not(letter: DeadLetter, partitions: Mapping[str, int]) -> str | None:
    """Explain why a letter cannot be redriven, and what to do; None if it can be. ``partitions``: of every topic."""
    if letter.source is None:
        return "it names no source record: it failed in a punctuation or a schedule, or is no dead letter"
    topic, partition = letter.source
    if letter.record.key is None and letter.record.value is None:
        return (
            "it has neither key nor value: what failed was given out by time (a window, a buffer), and its source record is not kept; or "
            f"Kafka Streams wrote it after a send. {letter.source_name} may show what it was: if it is to be processed again, write it anew"
        )
    if topic not in partitions:
        return f"its source topic {topic} is gone: create it (`penstock topics create {topic} -p {partition + 1}`, or more)"
    if partition >= partitions[topic]:
        return f"its source topic {topic} has {partitions[topic]} partition(s), but the record is of partition {partition}: add some"
    return None
