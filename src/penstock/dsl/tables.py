"""What a table is behind its handle: how others read it by key, and whether its updates carry old values.

Both are asked for by nodes further down, and may be granted only by giving the table a store. So this is the one mutable
thing of a graph, and operators are made from it when the topology is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.operators.base import TableView
from penstock.operators.stream_join import JoinKind
from penstock.operators.suppress import SuppressView
from penstock.operators.table_join import JoinView
from penstock.operators.views import StoreView
from penstock.state.spec import StoreKind, StoreSpec


def view_of(spec: StoreSpec) -> StoreView:
    """Return how a store is read as a table."""
    return StoreView(store=spec.name, kind=spec.kind, versioned=spec.kind is StoreKind.VERSIONED)


class Table(ABC):
    """A table's state while the graph grows."""

    def __init__(self, spec: StoreSpec | None) -> None:
        self.spec = spec
        self.send_old = False

    @property
    def store(self) -> str | None:
        """Name of the store that the operator writes."""
        return None if self.spec is None else self.spec.name

    def specs(self) -> tuple[StoreSpec, ...]:
        """The store to add, if there is one."""
        return () if self.spec is None else (self.spec,)

    @abstractmethod
    def view(self) -> TableView:
        """Return how to read this table by key; may give it a store."""

    @abstractmethod
    def enable_old(self, *, force: bool) -> bool:
        """Let updates carry the old value; with ``force`` even if a store is needed for it. Return whether they do."""


class StoredTable(Table):
    """A table that always has a store: aggregations."""

    spec: StoreSpec

    def __init__(self, spec: StoreSpec) -> None:
        super().__init__(spec)

    def view(self) -> TableView:
        """Read the store."""
        return view_of(self.spec)

    def enable_old(self, *, force: bool) -> bool:
        """The old value is in the store."""
        self.send_old = True
        return True


class SourceTable(Table):
    """A table read from a topic: it gets its store only if it is named, or once somebody needs it."""

    def __init__(self, spec: StoreSpec, materialized: bool) -> None:
        super().__init__(spec if materialized else None)
        self._spec = spec

    def view(self) -> TableView:
        """Read the store, which is made if need be."""
        self.spec = self._spec
        return view_of(self._spec)

    def enable_old(self, *, force: bool) -> bool:
        """Keep rows if need be."""
        if self.spec is None and not force:
            return False
        self.spec = self._spec
        self.send_old = True
        return True


class DerivedTable(Table):
    """A table computed row by row from another: with a store of its own, or read through its parent."""

    def __init__(self, parent: Table, spec: StoreSpec | None, through: Callable[[TableView], TableView]) -> None:
        super().__init__(spec)
        self.parent = parent
        self._through = through

    def view(self) -> TableView:
        """Read the store, or compute from what the parent has."""
        return self._through(self.parent.view()) if self.spec is None else view_of(self.spec)

    def enable_old(self, *, force: bool) -> bool:
        """Take old values from the store, or compute them from the parent's."""
        if self.spec is not None or self.parent.enable_old(force=force):
            self.send_old = True
        return self.send_old


class SuppressedTable(Table):
    """A table whose updates wait in a buffer: its rows are those before the updates that wait."""

    spec: StoreSpec

    def __init__(self, parent: Table, spec: StoreSpec) -> None:
        super().__init__(spec)
        self.parent = parent

    def view(self) -> TableView:
        """Read the buffer, then the parent."""
        return SuppressView(store=self.spec.name, parent=self.parent.view())

    def enable_old(self, *, force: bool) -> bool:
        """The buffer keeps what the parent sends."""
        self.send_old = self.parent.enable_old(force=force)
        return self.send_old


class JoinedTable(Table):
    """Two tables joined by key: with a store of its own, or read by joining anew."""

    def __init__(
        self, left: Table, right: Table, spec: StoreSpec | None, joiner: Callable[[Any, Any], Any], kind: JoinKind
    ) -> None:
        super().__init__(spec)
        self._left, self._right = left, right
        self._joiner, self._kind = joiner, kind

    def view(self) -> TableView:
        """Read the store, or join the rows of both sides."""
        if self.spec is not None:
            return view_of(self.spec)
        return JoinView(left=self._left.view(), right=self._right.view(), joiner=self._joiner, kind=self._kind)

    def enable_old(self, *, force: bool) -> bool:
        """Both sides must send theirs."""
        self._left.enable_old(force=True)
        self._right.enable_old(force=True)
        self.send_old = True
        return True
