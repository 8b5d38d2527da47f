"""What the page says first: why an application is slow, stuck or wrong. Each rule by what makes it speak, and what keeps it quiet."""

import pytest

from penstock.admin import overview
from penstock.admin.findings import find
from penstock.admin.overview import NodeTimes

QUIET = {
    "state": "RUNNING", "phase": "running", "paused": False, "restore": None, "ended": None, "lag": 0, "now": None, "epoch": 7,
    "nodes": {"fast": {"functions": []}, "slow": {"functions": ["f (shop.py:7)"]}}, "lately": None,
    "inputs": [], "groups": [], "failures": [],
}  # fmt: skip
GROUP = {
    "node": "parse", "exception": "ValueError", "count": 3, "action": "dead_letter", "reason": "processing_error",
    "examples": [{"message": "bad price", "record": "orders-0@7", "line": "shop.py:12"}],
}  # fmt: skip
ENDED = {
    "error": "ProcessingError",
    "message": "x",
    "node": "parse",
    "record": "orders-0@7",
    "function": "f (shop.py:7)",
}


def lately(**seconds: float) -> dict:
    return {"elapsed": 10.0, "lag": 300, "seconds": seconds}


def place(partition: int, watermark: int, *, idle: bool = False, lag: int = 0) -> dict:
    return {"topic": "orders", "partition": partition, "watermark": watermark, "idle": idle, "lag": lag}


def test_an_application_that_is_well_has_nothing_to_say():
    assert find(QUIET) == []


@pytest.mark.parametrize(
    ("more", "level", "words"),
    [
        ({"ended": ENDED}, "error", ["failed: ProcessingError", "parse", "orders-0@7", "shop.py:7"]),
        ({"groups": [GROUP]}, "error", ["3 records fail at parse: ValueError", "shop.py:12", "orders-0@7", "dead letters"]),
        ({"lag": 500, "lately": lately(fast=1.0, slow=9.0)}, "warning", ["slow takes 90%", "f (shop.py:7)", "500 records wait"]),
        ({"inputs": [place(0, 90_000), place(1, 1_000)]}, "warning", ["waits for orders-1", "89 s behind orders-0", "idle_after"]),
        ({"paused": True, "lag": 4}, "warning", ["paused", "4 records wait"]),
        ({"state": "REBALANCING", "phase": "restoring", "restore": {"restored_rows": 10, "remaining_offsets": 90}}, "info",
         ["is restoring", "10 rows restored, 90 offsets left"]),
        ({"now": {"step": "run lanes", "epoch": 8, "for_us": 12_000_000}}, "warning", ["'run lanes' for 12 s", "/debug/threads"]),
        ({"failures": [{"epoch": 8, "error": "BrokerError", "step": "commit", "message": "away"}]}, "warning", ["Epoch 8 is run again"]),
    ],
)  # fmt: skip
def test_a_cause_is_named(more, level, words):
    found = find({**QUIET, **more})
    told = " ".join(f"{each['title']} {each['detail']}" for each in found)
    assert found[0]["level"] == level
    for word in words:
        assert word in told


@pytest.mark.parametrize(
    "more",
    [
        {"lag": 500, "lately": lately(a=5.0, b=5.0, c=5.0)},
        {"lag": 500, "lately": lately(fast=0.1, slow=0.9)},
        {"lag": 500, "lately": lately(fast=1.0, slow=9.0) | {"lag": 0}},
        {"lag": 0, "lately": lately(fast=1.0, slow=9.0)},
        {"inputs": [place(0, 90_000), place(1, 1_000, idle=True)]},
        {"inputs": [place(0, 90_000), place(1, 1_000, lag=3)]},
        {"inputs": [place(0, 9_000), place(1, 1_000)]},
        {"inputs": [place(0, 90_000), place(1, -1)]},
        {"failures": [{"epoch": 7, "error": "BrokerError", "step": "commit", "message": "away"}]},
        {"now": {"step": "run lanes", "epoch": 8, "for_us": 1_000}},
    ],
)  # fmt: skip
def test_what_is_usual_is_not_told(more):
    assert find({**QUIET, **more}) == []


def test_the_worst_comes_first():
    given = {**QUIET, "groups": [GROUP], "paused": True, "lag": 9}
    assert [each["level"] for each in find(given)] == ["error", "warning"]
    assert [each["level"] for each in find({**given, "state": "REBALANCING"})] == ["error", "info"]


def test_where_the_time_goes_lately_is_told_between_looks(monkeypatch):
    now = [0]
    monkeypatch.setattr(overview, "stopwatch_us", lambda: now[0])
    times, found = NodeTimes(), []
    for second in range(0, 100, 10):
        now[0] = second * 1_000_000
        found.append(times.since({"lag": second, "nodes": {"a": {"seconds": second / 2}, "b": {}}}))
    assert found[0] is None
    assert found[1] == {"elapsed": 10.0, "lag": 10, "seconds": {"a": 5.0}}
    for at, lag in ((100, 7), (101, 3), (102, 8)):
        now[0] = at * 1_000_000
        last = times.since({"lag": lag, "nodes": {}})
    assert last["lag"] == 3, "the least of the last seconds: what was less for a moment is no backlog"
    assert found[9] == {"elapsed": 30.0, "lag": 90, "seconds": {"a": 15.0}}
