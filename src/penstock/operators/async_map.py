"""Asynchronous map: the value becomes what a slow function answers; many of its calls run at a time. No store, no clock.

A record that comes in starts a call and waits. At the barrier the answers leave in the order of the records, each under its own
origin, whatever the order in which they came: so nothing that follows can tell how long a call took. What follows is a step of
its own, to which the answers are sent (``SinkNode.stays``), because other records of the epoch must not overtake them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from penstock.operators.base import Forward, Operator, OperatorContext
from penstock.record import Headers, Origin

#: no pause before another attempt is longer
LONGEST_BACKOFF_MS = 60_000


class Answer(Protocol):
    """A call that was started."""

    result: Any

    def wait(self) -> Exception | None:
        """Wait until there is an answer; return the error, or None if ``result`` is there."""
        ...


class Calls(Protocol):
    """Starts the calls of one node in one lane."""

    def start(self, *arguments: Any) -> Answer:
        """Start a call as soon as one of those that run has ended, if there are as many as may be."""
        ...


@dataclass(frozen=True, slots=True)
class CallSpec:
    """How a function is called. Times are milliseconds; ``timeout`` is that of one attempt, None: no limit.

    >>> spec = CallSpec(print, retries=4, backoff=100)
    >>> [spec.pause_before(attempt) for attempt in range(1, 5)]
    [100, 200, 400, 800]
    """

    function: Callable[..., Any]
    concurrency: int = 64
    timeout: int | None = None
    retries: int = 0
    backoff: int = 100

    def pause_before(self, attempt: int) -> int:
        """Return how long to wait before an attempt; the first has number 0. Always the same: no jitter."""
        return 0 if attempt == 0 else min(self.backoff << (attempt - 1), max(LONGEST_BACKOFF_MS, self.backoff))

    @property
    def is_coroutine(self) -> bool:
        """Whether the function is to be awaited; any other is run in a thread."""
        return inspect.iscoroutinefunction(written(self.function))


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that has the code: what a partial is made of, the ``__call__`` of an object.

    >>> written(functools.partial(max, 1)) is max
    True
    """
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__
    return function


@dataclass(frozen=True, slots=True)
class AsyncMapValues(Operator):
    """Replace the value by the answer of ``call.function(value)``, or ``(key, value)`` where ``with_key``. The key stays."""

    #: the bound is one of a lane, so there may not be more tasks than lanes
    waits: ClassVar[bool] = True

    call: CallSpec
    with_key: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        start = context.calls(self.call).start
        waiting: list[tuple[Answer, Origin, Any, Any, int, Headers]] = []

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            waiting.append((start(value), context.origin, key, value, timestamp, headers))

        def on_record_with_key(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            waiting.append((start(key, value), context.origin, key, value, timestamp, headers))

        def settle() -> None:
            answers = waiting[:]
            waiting.clear()
            for answer, origin, key, value, timestamp, headers in answers:
                error = answer.wait()
                context.origin = origin
                if error is None:
                    forward(key, answer.result, timestamp, headers)
                else:
                    context.handle_error(key, value, timestamp, headers, error)

        context.on_barrier(settle)
        return on_record_with_key if self.with_key else on_record

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this operator."""
        return (written(self.call.function),)
