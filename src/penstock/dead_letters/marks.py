"""Which letters were redriven: a row for each in a compacted topic beside the dead-letter topic, committed with the record itself.

    topic   <dead-letter topic>-redriven, one partition, compacted
    key     JSON: [id of the dead-letter topic, partition, offset]
    value   JSON: {"time": when, in milliseconds; "letter": the letter whose record was written}; null once the letter is gone

The id is that of this very topic: one that is deleted and made anew under the same name begins without marks.
See ``docs/decisions/0047``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.dead_letters.letter import DeadLetter
from penstock.log.base import Log, Offsets, Row, TopicSpec

SUFFIX = "-redriven"


@dataclass(frozen=True)
class RedriveMarks:
    """The marks of a dead-letter topic, as they were when they were read."""

    topic: str
    topic_id: str
    #: by partition and offset of the letter
    found: Mapping[tuple[int, int], Mapping[str, Any]] = field(default_factory=dict)
    #: keys of letters of a topic of that name that is no more
    foreign: Collection[bytes] = ()

    @property
    def marks_topic(self) -> str:
        """The topic that keeps them."""
        return self.topic + SUFFIX

    def has(self, letter: DeadLetter) -> bool:
        """Whether a letter was redriven."""
        return letter.position in self.found

    def time(self, letter: DeadLetter) -> int | None:
        """When a letter was redriven, None if it was not."""
        mark = self.found.get(letter.position)
        return None if mark is None else int(mark["time"])

    def row(self, position: tuple[int, int], redriven: DeadLetter, now: int) -> Row:
        """Return the row that marks a letter; ``redriven``: the letter of the same record that was written."""
        value = json.dumps({"time": now, "letter": redriven.name}).encode()
        return self.marks_topic, 0, self._key(position), value, now, ()

    def rows_to_forget(self, starts: Offsets, now: int) -> Iterator[Row]:
        """Yield the rows that delete the marks of letters that are gone (retention), or of a topic that is no more."""
        gone = (place for place in self.found if place[1] < starts.get((self.topic, place[0]), 0))
        for key in (*map(self._key, gone), *self.foreign):
            yield self.marks_topic, 0, key, None, now, ()

    def _key(self, position: tuple[int, int]) -> bytes:
        return json.dumps([self.topic_id, *position]).encode()


def read_marks(log: Log, topic: str, *, settled: bool = False) -> RedriveMarks:
    """Read which letters of a topic were redriven; a topic that nobody redrove from has no marks.

    ``settled``: every redrive before is over (its producer was fenced), so all marks are read, and the end of a commit under way is
    waited for. Without, what a redrive has committed by now is read.
    """
    topic_id = log.admin.describe([topic])[topic].topic_id
    place = (topic + SUFFIX, 0)
    if place[0] not in log.admin.topics():
        return RedriveMarks(topic, topic_id)
    found: dict[tuple[int, int], Mapping[str, Any]] = {}
    foreign: set[bytes] = set()
    reader = log.reader()
    try:
        ends = log.admin.end_offsets([place]) if settled else log.admin.stable_offsets([place])
        for record in reader.read(*place, log.admin.earliest_offsets([place])[place], ends[place]):
            _take(record.key or b"[]", record.value, topic_id, found, foreign)
    finally:
        reader.close()
    return RedriveMarks(topic, topic_id, found, foreign)


def _take(
    key: bytes,
    value: bytes | None,
    topic_id: str,
    found: dict[tuple[int, int], Mapping[str, Any]],
    foreign: set[bytes],
) -> None:
    of, partition, offset = json.loads(key)
    if of != topic_id:
        (foreign.discard if value is None else foreign.add)(key)
    elif value is None:
        found.pop((partition, offset), None)
    else:
        found[partition, offset] = json.loads(value)


def ensure_marks_topic(log: Log, topic: str) -> None:
    """Make the topic of the marks, with as many replicas as the dead-letter topic; one that is there must be compacted."""
    replication = log.admin.describe([topic])[topic].replication
    log.admin.ensure_topics([TopicSpec(topic + SUFFIX, 1, {"cleanup.policy": "compact"}, replication)])


def wait_for_marks(log: Log, topic: str) -> None:
    """Return when all marks that were written can be read: a commit returns before its end is in every partition."""
    place = (topic + SUFFIX, 0)
    end = log.admin.end_offsets([place])[place]
    reader = log.reader()
    try:
        for _ in reader.read(*place, max(0, end - 1), end):
            pass
    finally:
        reader.close()
