"""A scheduled source: a function of the user's that is called at the times of a schedule, in the first shard alone.

It is a wall-clock punctuation: its next due time is in the snapshot of each barrier, so it fires once, whatever fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.base import Forward, OperatorContext
from penstock.processor.emitter import EmitterContext
from penstock.schedule import Schedule

#: where scheduled sources run
FIRST_SHARD = 0


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Call ``emitter(context)`` at the times of ``schedule``; what it forwards goes to the nodes below the source."""

    schedule: Schedule
    emitter: Callable[[EmitterContext], Any]

    def open(self, context: OperatorContext, forward: Forward) -> None:
        """Bind to a shard: only the first one has anything to do."""
        if context.shard != FIRST_SHARD:
            return
        emitter = self.emitter

        def fire(timestamp: int) -> None:
            emitter(EmitterContext(context, forward, min(punctuation.due, timestamp), timestamp))

        punctuation = context.schedule_at(self.schedule, fire)
