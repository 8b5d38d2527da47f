"""Suppress: hold back updates of a table until a time limit passes or the window closes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.operators.base import Forward, Lookup, Operator, OperatorContext, TableView


@dataclass(frozen=True, slots=True)
class Suppress(Operator):
    """Hold back updates, one row per key, ordered by the time of the row's first update."""

    store: str
    wait: int
    max_records: int | None = None
    max_bytes: int | None = None
    when_full: Literal["emit", "shut_down"] = "emit"
    final: bool = False
    window_end_time: bool = False
    send_old: bool = False
    parent: TableView | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SuppressView(TableView):
    """Read a suppressed table: what was last emitted, while a newer value is held back."""

    store: str
    parent: TableView

    @property
    def stores(self) -> tuple[str, ...]:  # type: ignore[override]
        """The buffer and whatever the parent reads."""
        return (self.store, *self.parent.stores)

    def open(self, context: OperatorContext) -> Lookup:
        """Bind to one shard."""
        raise NotImplementedError
