"""Deduplicate: let the first record of an id pass, drop the ones that repeat it within a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.base import Forward, Operator, OperatorContext


@dataclass(frozen=True, slots=True)
class Deduplicate(Operator):
    """Drop a record whose (key, ``by(key, value)``) was let pass at most ``within`` milliseconds before."""

    store: str
    by: Callable[[Any, Any], Any]
    within: int

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """What gives the id."""
        return (self.by,)
