"""The chains of a task: which records it takes by column, and how they are run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.lane.chains import Chain, chain_below, mixing_order
from penstock.serde.columns import Columns, Commits, Irregular, OnColumns, Unreadable

if TYPE_CHECKING:
    from penstock.lane.task import Task


logger = logging.getLogger("penstock.lane")


class ByColumn:
    """What takes the records of each source of a task by column, made when it is first asked for.

    What was given up once is not tried again: the task lives for one epoch, and its records are alike.
    """

    def __init__(self, task: Task, plain: bool) -> None:
        self._task = task
        #: False: every record has to be seen by itself
        self._plain = plain
        self._chains: dict[str, Chain | None] = {}
        self._orders: dict[frozenset[str], tuple[str, ...] | None] = {}

    def takes(self, source: str) -> bool:
        """Whether records of a source may go by column."""
        return self._chain(source) is not None

    def takes_together(self, sources: Sequence[str]) -> bool:
        """Whether records of these sources may go by column, those of one after those of another."""
        return self._order(frozenset(sources)) is not None

    def run(self, source: str, columns: Columns) -> bool:
        """Run records of a source; False, and nothing has happened, if they have to go one by one."""
        try:
            if _run([(self._taken(source), columns)], counted=columns.counts is not None):
                return True
        except Unreadable:
            return False
        self._chains[source] = None
        self._orders.clear()
        return False

    def run_together(self, parts: Mapping[str, Columns]) -> bool:
        """Run records of several sources, which have places; False, and nothing has happened, if they have to go one by one."""
        sources = frozenset(parts)
        order = self._order(sources)
        assert order is not None
        try:
            if _run([(self._taken(source), parts[source]) for source in order]):
                return True
        except Unreadable:
            return False
        self._orders[sources] = None
        return False

    def _taken(self, source: str) -> OnColumns:
        chain = self._chain(source)
        assert chain is not None
        return chain.on_columns

    def _chain(self, source: str) -> Chain | None:
        if source not in self._chains:
            self._chains[source] = chain_below(self._task, source) if self._plain else None
        return self._chains[source]

    def _order(self, sources: frozenset[str]) -> tuple[str, ...] | None:
        if sources not in self._orders:
            chains = {source: chain for source in sorted(sources) if (chain := self._chain(source)) is not None}
            self._orders[sources] = None if len(chains) < len(sources) else mixing_order(chains)
        return self._orders[sources]


def _run(parts: Sequence[tuple[OnColumns, Columns]], counted: bool = False) -> bool:
    commits: Commits = []
    try:
        for on_columns, columns in parts:
            on_columns(columns, commits)
            columns.check()
    except Unreadable:  # others of the same source may go by column
        raise
    except Exception as error:  # whatever it is: one by one it is told of with its node and record, or judged
        if counted:  # there is no function of the user's in its way, and no single record
            raise
        if not isinstance(error, Irregular):  # if it is a fault of ours, nothing but the time tells of it
            logger.debug("records go one by one", exc_info=True)
        return False
    for commit in commits:
        commit()
    return True
