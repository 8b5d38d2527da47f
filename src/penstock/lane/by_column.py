"""The chains of a task: which records it takes by column, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from penstock.batch.batch import Batch, Commits, OnBatch, all_or_nothing
from penstock.batch.column import Column
from penstock.lane.chains import Chain, Meetings, chain_below, mixing_order

if TYPE_CHECKING:
    from penstock.lane.task import Task


#: runs some records; what it would write it leaves in ``Commits``
Step: TypeAlias = Callable[[Commits], None]
#: batches that a chain may give up in a row before records of its source go one by one until the end of the epoch
TRUST = 8


class ByColumn:
    """What takes the records of each source of a task by column, made when it is first asked for.

    A batch that is given up goes again in parts, and then one by one where it must. What fails more often than not is not tried any more:
    the task lives for one epoch, and its records are alike.
    """

    def __init__(self, task: Task, plain: bool) -> None:
        self._task = task
        #: False: every record has to be seen by itself
        self._plain = plain
        self._chains: dict[str, Chain | None] = {}
        self._orders: dict[frozenset[str], tuple[str, ...] | None] = {}
        self._meetings: Meetings = {}
        #: how often records of some sources may still be given up
        self._trust: dict[frozenset[str], int] = {}

    def takes(self, source: str) -> bool:
        """Whether records of a source may go by column."""
        return self._chain(source) is not None

    def takes_together(self, sources: Sequence[str]) -> bool:
        """Whether records of these sources may go by column, those of one after those of another."""
        return self._order(frozenset(sources)) is not None

    def run(self, source: str, batch: Batch) -> bool:
        """Run records of a source; False, and nothing has happened, if they have to go one by one.

        ``Undecodable`` is raised before any function has been called: without the records that cannot be read others may go by column.
        """
        done = _run([partial(self._taken(source), batch)], [batch])
        if not self._trusted(frozenset({source}), done):
            self._chains[source] = None
            self._orders.clear()
        return done

    def run_together(self, parts: Mapping[str, Batch]) -> bool:
        """Run records of several sources, which have places; False, and nothing has happened, if they have to go one by one."""
        sources = frozenset(parts)
        order = self._order(sources)
        assert order is not None
        steps = [self._step(name, parts) for name in order]
        meetings = [found[0] for name in order if name not in parts and (found := self._meetings[name]) is not None]
        for meeting in meetings:
            meeting.wait()
        done = False
        try:
            done = _run(steps, parts.values())
        finally:
            if not done:
                for meeting in meetings:
                    meeting.give_up()
        if not self._trusted(sources, done):
            self._orders[sources] = None
        return done

    def _trusted(self, sources: frozenset[str], done: bool) -> bool:
        """Whether records of some sources are to be tried again, now that some were run or given up."""
        self._trust[sources] = min(self._trust.get(sources, TRUST) + (1 if done else -1), TRUST)
        return self._trust[sources] > 0

    def _step(self, name: str, parts: Mapping[str, Batch]) -> Step:
        """Return what runs the records of a source, or what was brought to a node in which chains meet."""
        if name in parts:
            return partial(self._taken(name), parts[name])
        found = self._meetings[name]
        assert found is not None
        return found[0].run

    def _taken(self, source: str) -> OnBatch:
        chain = self._chain(source)
        assert chain is not None
        return chain.on_batch

    def _chain(self, source: str) -> Chain | None:
        if source not in self._chains:
            self._chains[source] = chain_below(self._task, source, self._meetings) if self._plain else None
        return self._chains[source]

    def _order(self, sources: frozenset[str]) -> tuple[str, ...] | None:
        if sources not in self._orders:
            chains = {source: chain for source in sorted(sources) if (chain := self._chain(source)) is not None}
            self._orders[sources] = None if len(chains) < len(sources) else mixing_order(chains)
        return self._orders[sources]


def _run(steps: Sequence[Step], brought: Collection[Batch]) -> bool:
    """Run records that sources have brought; False, and nothing has happened, if they have to go one by one."""
    counted = any(batch.counts is not None for batch in brought)  # no function of the user's is in the way of such
    # of one source the values are read when they are needed, which is before a function gets them: together with their keys
    first = [partial(_check, batch if len(brought) > 1 else batch.keys) for batch in brought]
    return all_or_nothing([*first, *steps, *(partial(_check, batch) for batch in brought)], must=counted)


def _check(read: Batch | Column, _: Commits) -> None:
    read.check()
