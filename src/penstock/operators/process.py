"""The nodes that run a user's Processor or FixedKeyProcessor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.base import Forward, Operator, OperatorContext


@dataclass(frozen=True, slots=True)
class Process(Operator):
    """Run the Processor that ``supplier`` makes: one per shard."""

    supplier: Callable[[], Any]

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ProcessValues(Operator):
    """Run the FixedKeyProcessor that ``supplier`` makes: one per shard."""

    supplier: Callable[[], Any]

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError
