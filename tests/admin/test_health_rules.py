"""The table of ``admin/health.py``, by rules: what live and ready say of a state, a stall, a broker, a registry.

Whether a real application comes into these states is in ``test_health_table.py``.
"""

import asyncio
import json
from types import SimpleNamespace

import pytest

from penstock.admin import health as module
from penstock.admin.health import Health
from penstock.engine.history import EpochFailure, StepNow
from penstock.engine.states import State
from penstock.errors import EngineError, FencedError

STALL = {"now": StepNow("commit", 8, 0), "at_us": 301_000_000}


class Broker:
    """What asking it has told."""

    def __init__(self, answers):
        self._answers = answers

    async def look(self):
        return {"answers": self._answers, "error": None if self._answers else "nobody there", "missing_topics": []}


async def in_thread(f, *args):
    return f(*args)


def told(
    monkeypatch,
    probe,
    *,
    state=State.RUNNING,
    error=None,
    broker=True,
    now=None,
    at_us=0,
    failures=(),
    checks=(),
    limit=300_000,
):
    monkeypatch.setattr(module, "stopwatch_us", lambda: at_us)
    loop = SimpleNamespace(
        history=SimpleNamespace(failures=failures), committed=SimpleNamespace(epoch=7), now=now, lag=3
    )
    app = SimpleNamespace(
        state=state, phase="restoring", error=error, paused=False, config={"stall_limit_ms": limit},
        health_checks=lambda group: dict(checks) if group == probe else {},
    )  # fmt: skip
    health = Health(SimpleNamespace(app=app, loop=loop, restore=lambda: None, in_thread=in_thread))
    health._broker = Broker(broker)
    answer = asyncio.run(getattr(health, probe)())
    found = json.loads(answer.body)
    assert found["status"] == answer.status_code
    assert ("retry-after" in answer.headers) is (answer.status_code == 503)
    return answer.status_code, " | ".join(found["missing"]), found


@pytest.mark.parametrize(
    ("case", "live", "ready"),
    [
        ({}, "", ""),
        ({"state": State.REBALANCING}, "", "is restoring"),
        ({"state": State.ERROR, "error": EngineError("x")}, "is ERROR", "is ERROR"),
        ({"state": State.PENDING_SHUTDOWN}, "is PENDING_SHUTDOWN", "is PENDING_SHUTDOWN"),
        ({"broker": False}, "", "the broker does not answer: nobody there"),
        (STALL, "'commit' of epoch 8 has taken 301000 ms", "'commit' of epoch 8"),
        (STALL | {"broker": False}, "", "the broker does not answer"),
        (STALL | {"at_us": 300_000_000}, "", ""),
        ({"failures": [EpochFailure(0, 8, "run lanes", "RegistryError", "away")]}, "", "epoch 8 is run again: away"),
        ({"failures": [EpochFailure(0, 7, "run lanes", "RegistryError", "away")]}, "", ""),
        ({"failures": [EpochFailure(0, 8, "run lanes", "EngineError", "ended")]}, "", ""),
    ],
)
def test_what_is_missing(case, live, ready, monkeypatch):
    for probe, words in (("live", live), ("ready", ready)):
        status, missing, _ = told(monkeypatch, probe, **case)
        assert (status == 503) is bool(words), (probe, missing)
        assert words in missing


@pytest.mark.parametrize("probe", ["live", "ready"])
@pytest.mark.parametrize(
    ("outcome", "says"),
    [(None, "ok"), (True, "ok"), (False, "returned False"), ("no disk", "no disk"), (0, "returned 0")],
)
def test_checks_of_the_user_are_asked_by_their_group(probe, outcome, says, monkeypatch):
    status, missing, found = told(monkeypatch, probe, checks={"disk": lambda: outcome})
    assert found["checks"] == {"disk": says}
    assert (status, missing) == ((200, "") if says == "ok" else (503, f"check 'disk': {says}"))


def test_a_fenced_instance_says_so(monkeypatch):
    _, _, found = told(monkeypatch, "live", state=State.ERROR, error=FencedError("another one"))
    assert (found["fenced"], found["error"]) == (True, "FencedError: another one")
    assert not told(monkeypatch, "live")[2]["fenced"]
