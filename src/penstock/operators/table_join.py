"""Table-table joins by primary key: an update on either side joins the other side's present row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from penstock.operators.base import Forward, Lookup, Operator, OperatorContext, TableView
from penstock.operators.stream_join import JoinKind


@dataclass(frozen=True, slots=True)
class TableTableJoin(Operator):
    """One side of a table-table join (KTABLE-JOINTHIS, KTABLE-JOINOTHER).

    ``side`` "this" gets the updates of the left table and reads the right one through ``other``; "other" the reverse.
    ``joiner(left, right)`` on both. ``versioned``: the table that feeds this side is versioned, its out-of-order updates are dropped.
    """

    other: TableView
    joiner: Callable[[Any, Any], Any]
    kind: JoinKind
    side: Literal["this", "other"]
    send_old: bool = False
    versioned: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The joiner."""
        return (self.joiner,)


@dataclass(frozen=True, slots=True)
class TableJoinMerge(Operator):
    """Bring both sides of a table-table join together (KTABLE-MERGE); keeps the result where it has a ``store``."""

    store: str | None = None
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class JoinView(TableView):
    """Read a table-table join that has no store of its own: both parents are read and joined at the time of asking."""

    left: TableView
    right: TableView
    joiner: Callable[[Any, Any], Any]
    kind: JoinKind

    @property
    def stores(self) -> tuple[str, ...]:  # type: ignore[override]
        """The stores of both parents, each once."""
        return tuple(dict.fromkeys((*self.left.stores, *self.right.stores)))

    def open(self, context: OperatorContext) -> Lookup:
        """Bind to one shard; return the lookup."""
        raise NotImplementedError
