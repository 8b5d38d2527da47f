"""Whether the application lives, and whether it is ready; the body says what is missing.

::

                        live                                ready
    starting, restoring 200                                 503, with what is left
    RUNNING             200                                 200
    a step is older     503 if the broker answers,          503 if the broker does not answer
      than the limit    200 if it does not
    the registry of     200                                 503
      schemas is away
    ending, failed      503 with the error                  503
    checks of the user  those of the group ``live``         those of the group ``ready``

A broker that is away never makes the application dead: to be started again would not help. An application that is paused is ready:
its stores can be read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import anyio

from penstock.admin.answers import json_answer
from penstock.admin.broker_probe import BrokerProbe
from penstock.admin.served_app import ServedApp
from penstock.clock import stopwatch_us
from penstock.engine.states import State
from penstock.errors import FencedError
from penstock.masking import scrubbed

#: a check of the user's: true or None is well; false, a text or an exception is not
Check = Callable[[], Any]
#: seconds that a check of the user's may take
CHECK_SECONDS = 5.0


class Health:
    """Answers the probes."""

    def __init__(self, running: ServedApp) -> None:
        self._running = running
        self._broker = BrokerProbe(running)

    def close(self) -> None:
        """Close the client that asks the broker."""
        self._broker.close()

    async def live(self) -> Any:
        """Whether the process does its work, or is to be ended."""
        missing = self._ended()
        stall = self._stall()
        if stall is not None and (await self._broker.look())["answers"]:
            missing.append(stall)
        return await self._answer("live", missing)

    async def ready(self) -> Any:
        """Whether results are made and stores can be read."""
        running = self._running
        missing = self._ended()
        if running.app.state in (State.CREATED, State.REBALANCING):
            missing.append(f"the application is {running.app.phase}")
        broker = await self._broker.look()
        if not broker["answers"]:
            missing.append(f"the broker does not answer: {broker['error']}")
        if (away := self._registry()) is not None:
            missing.append(away)
        if (stall := self._stall()) is not None:
            missing.append(stall)
        return await self._answer("ready", missing, broker=broker)

    def _registry(self) -> str | None:
        """Report that the epoch waits for a schema registry, if it does."""
        loop = self._running.loop
        last = None if loop is None else next(reversed(loop.history.failures), None)
        if last is None or loop is None or last.error != "RegistryError" or last.epoch <= loop.committed.epoch:
            return None
        return f"epoch {last.epoch} is run again: {last.message}"

    def _ended(self) -> list[str]:
        app = self._running.app
        if app.state in (State.CREATED, State.REBALANCING, State.RUNNING):
            return []
        return [f"the application is {app.state}"]

    def _stall(self) -> str | None:
        """Explain which step takes longer than it may, if one does."""
        loop = self._running.loop
        now = None if loop is None else loop.now
        limit = self._running.app.config["stall_limit_ms"]
        if now is None or (age := (stopwatch_us() - now.since_us) // 1000) <= limit:
            return None
        return f"the step {now.step!r} of epoch {now.epoch} has taken {age} ms, and may take {limit} (stall_limit_ms)"

    async def _answer(self, group: str, missing: list[str], **more: Any) -> Any:
        checks = {name: await self._run(check) for name, check in self._running.app.health_checks(group).items()}
        missing += [f"check {name!r}: {outcome}" for name, outcome in checks.items() if outcome != "ok"]
        body = {"status": 503 if missing else 200, "missing": missing, "checks": checks, **self._facts(), **more}
        headers = {"retry-after": "1"} if missing else {}
        return json_answer(body, body["status"], headers)

    async def _run(self, check: Check) -> str:
        """Call a check of the user's, for so long; say how it went."""
        try:
            with anyio.fail_after(CHECK_SECONDS):
                told = await (check() if inspect.iscoroutinefunction(check) else self._running.in_thread(check))
        except TimeoutError:
            return f"no answer within {CHECK_SECONDS:.0f} s"
        except Exception as error:
            return scrubbed(f"{type(error).__name__}: {error}")
        if told is None or told is True:
            return "ok"
        return scrubbed(told) if isinstance(told, str) else f"returned {told!r}"

    def _facts(self) -> dict[str, Any]:
        app, loop = self._running.app, self._running.loop
        failures = [] if loop is None else list(loop.history.failures)
        error = app.error
        return {
            "state": str(app.state),
            "phase": app.phase,
            "paused": app.paused,
            "epoch": None if loop is None else loop.committed.epoch,
            "lag": None if loop is None else loop.lag,
            "restore": self._running.restore(),
            "error": None if error is None else scrubbed(f"{type(error).__name__}: {error}"),
            "fenced": isinstance(error, FencedError),
            "last_failure": None if not failures else failures[-1],
        }
