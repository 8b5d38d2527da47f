"""Stream-table joins: each record of a stream meets the row of a table, as it is now or as it was at the record's time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.base import Forward, Operator, OperatorContext, TableView


@dataclass(frozen=True, slots=True)
class StreamTableJoin(Operator):
    """Join a stream with a table by key (KSTREAM-JOIN, KSTREAM-LEFTJOIN).

    ``joiner(value, row)``, or ``(key, value, row)`` with ``with_key``. A versioned table is read as of the record's timestamp.
    With ``grace``, a record waits in ``buffer`` until stream time has passed its timestamp by that many milliseconds.
    """

    table: TableView
    joiner: Callable[..., Any]
    with_key: bool = False
    left: bool = False
    grace: int | None = None
    buffer: str | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The joiner."""
        return (self.joiner,)


@dataclass(frozen=True, slots=True)
class StreamGlobalTableJoin(Operator):
    """Join a stream with a global table by the key that ``select(key, value)`` gives."""

    store: str
    select: Callable[..., Any]
    joiner: Callable[..., Any]
    with_key: bool = False
    left: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The selector and the joiner."""
        return (self.select, self.joiner)
