"""The limits of topics: how large a row may be, and how far its timestamp may be from the broker's clock.

A broker rejects a row beyond them with its whole batch, when it is too late to go on without it. So rows are checked
before they are sent, and given to ``on_production_error``. The limits are read when the application starts, and again
when a broker rejects rows all the same: in a topic that a record has named, after a setting was changed, or because
its clock is not ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.engine.topics import logged_stores
from penstock.log.base import Log, Row, RowColumns
from penstock.log.row_size import row_bytes
from penstock.log.topics import changelog_name
from penstock.topology.node import SinkNode
from penstock.topology.topology import Topology

#: no limit
NEVER = 2**63 - 1
#: settings of a topic, and the one that brokers before 3.6 have for both
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
EITHER = "message.timestamp.difference.max.ms"
#: the code of rows that are too large
TOO_LARGE = "MSG_SIZE_TOO_LARGE"
#: assumed difference between the broker's clock and ours: at first, and at most
FIRST_SLACK_MS, MOST_SLACK_MS = 1_000, 60_000


class TopicLimits(NamedTuple):
    """The limits of one topic. ``row_bytes`` None: those of the client."""

    row_bytes: int | None = None
    before_ms: int = NEVER
    after_ms: int = NEVER

    def refuses(self, row: Row, now: int) -> str | None:
        """Return why the topic does not accept a row, None if it does.

        >>> TopicLimits(after_ms=5).refuses(("t", 0, None, b"", 110, ()), 100)
        'a row for t has the time 110, 10 ms after now: the topic takes 5 (message.timestamp.after.max.ms)'
        """
        topic, _, _, _, time, _ = row
        if self.row_bytes is not None and (size := row_bytes(row)) > self.row_bytes:
            return (
                f"a row of {size} bytes for {topic} is too large: the topic takes {self.row_bytes} (max.message.bytes)"
            )
        for distance, limit, side, setting in (
            (time - now, self.after_ms, "after", AFTER),
            (now - time, self.before_ms, "before", BEFORE),
        ):
            if distance > limit:
                said = f"a row for {topic} has the time {time}, {distance} ms {side} now"
                return f"{said}: the topic takes {max(limit, 0)} ({setting})"
        return None

    def takes_times(self, columns: RowColumns, now: int) -> bool:
        """Return whether the topic accepts the timestamps of all rows."""
        times = columns.timestamps
        return not len(times) or (int(times.max()) - now <= self.after_ms and now - int(times.min()) <= self.before_ms)

    def nearest(self, time: int, now: int) -> int:
        """Return the nearest timestamp that the topic accepts."""
        return min(max(time, now - self.before_ms), now + self.after_ms)


class Limits:
    """The limits of the topics of an application, and which sinks write to them."""

    def __init__(self, log: Log, topology: Topology, application_id: str, client_bytes: int) -> None:
        self._log = log
        self._client_bytes = client_bytes
        self._known: dict[str, TopicLimits] = {}
        self._slack_ms = 0
        self._changelogs = [changelog_name(application_id, store) for store in logged_stores(topology)]
        self._sinks: dict[str | None, list[str]] = {}
        for name, node in topology.nodes.items():
            if isinstance(node, SinkNode) and not node.internal:
                self._sinks.setdefault(node.topic, []).append(name)

    def learn(self, topics: Iterable[str], *, refused: bool = False) -> int | None:
        """Read the limits of topics; return the smallest row size below the client's. ``refused``: rows were."""
        smallest = None
        for topic in topics:
            found = self._log.admin.configs(topic)
            size: int | None = int(found["max.message.bytes"])
            assert size is not None
            if size < self._client_bytes:
                smallest = min(size, smallest or size)
            elif not refused and self._known.get(topic, TopicLimits()).row_bytes is None:
                size = None
            self._known[topic] = TopicLimits(size, *_times(found))
        return smallest

    def of(self, topic: str) -> TopicLimits:
        """Return the limits of a topic, as far as they are known."""
        known = self._known.get(topic, TopicLimits())
        if not self._slack_ms:
            return known
        before, after = (side if side == NEVER else side - self._slack_ms for side in known[1:])
        return TopicLimits(known.row_bytes, before, after)

    def sinks_of(self, topic: str) -> str | None:
        """Return the nodes that may have written a row for a topic."""
        return " or ".join(self._sinks.get(topic) or self._sinks.get(None) or ()) or None

    def adapt(self, code: str | None, topics: Iterable[str]) -> bool:
        """Adapt to a rejection of rows for topics or changelogs; return whether the next run may pass.

        Rows that seem to be within the limits are near to one: the broker's clock differs from ours.
        """
        before = dict(self._known)
        self.learn(topics, refused=code == TOO_LARGE)
        if code == TOO_LARGE:
            return before != self._known
        if self._open_changelogs() or before != self._known:
            return True
        self._slack_ms = max(FIRST_SLACK_MS, 2 * self._slack_ms)
        return self._slack_ms <= MOST_SLACK_MS

    def _open_changelogs(self) -> bool:
        """Let the changelogs accept any timestamp; return whether one did not."""
        changed = False
        for topic in self._changelogs:
            found = self._log.admin.configs(topic)
            wrong = {name: str(NEVER) for name in (BEFORE, AFTER, EITHER) if found.get(name, str(NEVER)) != str(NEVER)}
            if wrong:
                self._log.admin.alter_configs(topic, wrong)
                changed = True
        return changed


def _times(found: dict[str, str]) -> tuple[int, int]:
    """Return how far before and after the broker's clock timestamps may be."""
    if found.get("message.timestamp.type") == "LogAppendTime":
        return NEVER, NEVER
    either = int(found.get(EITHER, NEVER))
    return min(int(found.get(BEFORE, NEVER)), either), min(int(found.get(AFTER, NEVER)), either)
