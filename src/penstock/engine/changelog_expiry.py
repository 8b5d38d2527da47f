"""Rows of windows leave their changelog by the time of their store, never by the clock of a broker.

A broker that deletes by age looks at the timestamps of records, which are event times: of history that is read again it would
delete rows whose windows are still open. So the changelogs of windowed stores are kept without end there, and cut here: once the
store has dropped everything that was written up to some barrier, the changelog is deleted up to that barrier.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from penstock.clock import Clock
from penstock.engine.committed_state import CommittedState
from penstock.errors import BrokerError
from penstock.log.base import Log, Offsets
from penstock.log.topics import changelog_name

logger = logging.getLogger("penstock.engine")

#: milliseconds between two cuts
EVERY_MS = 10_000


class Mark(NamedTuple):
    """A barrier: the newest row that was written by then, from when on rows were kept, where the changelog ended."""

    newest: int
    kept: int
    end: int


class Marks:
    """The barriers of one changelog partition whose rows are not all gone yet; one for each time that the store dropped some.

    >>> marks = Marks()
    >>> for newest, kept, end in (100, 0, 10), (150, 60, 20), (200, 120, 30), (210, 180, 40):
    ...     print(marks.see(newest, kept, end))
    0
    0
    10
    20
    """

    def __init__(self) -> None:
        self._marks: deque[Mark] = deque()
        self._gone = 0

    def see(self, newest: int, kept: int, end: int) -> int:
        """Observe a barrier; return the offset below which no row is kept any more."""
        if not self._marks or kept > self._marks[-1].kept:
            self._marks.append(Mark(newest, kept, end))
        while self._marks and self._marks[0].newest < kept:
            self._gone = self._marks.popleft().end
        return self._gone


class ChangelogExpiry:
    """Cuts the changelogs of windowed stores; to be told of every barrier."""

    def __init__(self, log: Log, application_id: str, stores: Iterable[str], clock: Clock) -> None:
        self._log = log
        self._names = {store: changelog_name(application_id, store) for store in stores}
        self._clock = clock
        self._next = 0
        self._marks: dict[tuple[str, int], Marks] = {}
        self._cut: Offsets = {}

    def __call__(self, committed: CommittedState) -> None:
        """Observe a barrier; cut what can be cut, now and then."""
        gone = dict(self._gone(committed))
        due = {place: offset for place, offset in gone.items() if offset > self._cut.get(place, 0)}
        if not due or self._clock.now_ms() < self._next:
            return
        self._next = self._clock.now_ms() + EVERY_MS
        try:
            # a barrier counts the markers of its transaction, which a broker may write later: not all offsets need be there yet
            ends = self._log.admin.stable_offsets(due)
            due = {place: min(offset, ends[place]) for place, offset in due.items()}
            self._log.admin.delete_records(due)
        except BrokerError as error:
            logger.warning("changelogs are longer than they need to be: %s", error)
        else:
            self._cut |= due

    def _gone(self, committed: CommittedState) -> Iterator[tuple[tuple[str, int], int]]:
        """Return up to where each changelog partition holds nothing that is kept. Of levels that share a store the slowest counts."""
        found: dict[tuple[str, int], list[Any]] = {}
        for by_shard in committed.snapshots.values():
            for shard, shot in by_shard.items():
                for store in shot["stores"].keys() & self._names.keys():
                    found.setdefault((store, shard), []).append(shot["stores"][store])
        for (store, shard), told in found.items():
            newest, kept = max(each["newest"] for each in told), min(each["kept"] for each in told)
            marks = self._marks.setdefault((store, shard), Marks())
            yield (self._names[store], shard), marks.see(newest, kept, committed.changelogs[store][shard])
