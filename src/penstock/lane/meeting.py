"""A node in which records of several sources meet: by column it waits until the chains of all of them have run."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.operators.base import Side
from penstock.serde.columns import Columns, Commits, OnColumns


class Meeting:
    """What the parents of a node have brought, until it is taken together; where nobody waits it is taken as it comes."""

    def __init__(self, tail: OnColumns) -> None:
        self._tail = tail
        self._parts: list[tuple[Side, Columns]] | None = None

    def brings(self, side: Side) -> OnColumns:
        """Return what takes the records of one of the parents."""

        def on_columns(columns: Columns, commits: Commits) -> None:
            if self._parts is None:
                self._run([(side, columns)], commits)
            else:
                self._parts.append((side, columns))

        return on_columns

    def wait(self) -> None:
        """Take nothing until all have come."""
        self._parts = []

    def give_up(self) -> None:
        """Forget what was brought."""
        self._parts = None

    def run(self, commits: Commits) -> None:
        """Take what was brought."""
        parts, self._parts = self._parts, None
        if parts:
            self._run(parts, commits)

    def _run(self, parts: Sequence[tuple[Side, Columns]], commits: Commits) -> None:
        met = parts[0][0].meet(parts, commits)
        if met.columns is not None:
            self._tail(met.columns, commits)
        met.check()
