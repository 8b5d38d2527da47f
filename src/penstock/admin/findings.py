"""Findings for operators: why an application is slow, stuck or wrong, derived from the numbers of the overview.

Pure functions of data; each finding names a cause, what it does, and what to do. The page shows them on top, the worst first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Overview = Mapping[str, Any]
Finding = dict[str, Any]

#: a node that takes this share of the time of all nodes is named as the slow one, if records wait all the time, and nodes are busy
#: for this share of the time that passes
SLOW_SHARE, BUSY_SHARE = 0.5, 0.2
#: a partition whose time is this far behind that of another holds windows back
BEHIND_MS = 10_000
#: a step of an epoch that takes so long is told
LONG_STEP_US = 10_000_000
#: the worst first
LEVELS = ("error", "warning", "info")


def find(overview: Overview) -> list[Finding]:
    """Return the findings, the most severe first. Those that need a running application are left out for one that has ended."""
    rules = (*RULES, *(WHILE_RUNNING if overview["state"] == "RUNNING" else ()))
    found = [finding for rule in rules for finding in rule(overview)]
    return sorted(found, key=lambda finding: LEVELS.index(finding["level"]))


def _finding(level: str, title: str, detail: str, section: str) -> Finding:
    """``section``: where on the page more of it is."""
    return {"level": level, "title": title, "detail": detail, "section": section}


def _ended(overview: Overview) -> Iterator[Finding]:
    error = overview["ended"]
    if error is not None:
        where = " · ".join(str(error[name]) for name in ("node", "record", "function") if error.get(name))
        title = f"The application has failed: {error['error']}"
        yield _finding("error", title, where or error["message"], "errors")


def _starting(overview: Overview) -> Iterator[Finding]:
    if overview["state"] in ("CREATED", "REBALANCING"):
        restore = overview["restore"] or {}
        detail = "Stores can be read and results are made once this is over."
        if restore.get("remaining_offsets"):
            detail = (
                f"{restore['restored_rows']:,} rows restored, {restore['remaining_offsets']:,} offsets left. {detail}"
            )
        yield _finding("info", f"The application is {overview['phase']}", detail, "strip")


def _paused(overview: Overview) -> Iterator[Finding]:
    if overview["paused"]:
        waits = f"{overview['lag']:,} records wait. " if overview["lag"] else ""
        yield _finding("warning", "The application is paused", f"{waits}Press resume to go on.", "strip")


def _failing(overview: Overview) -> Iterator[Finding]:
    for group in overview["groups"][:5]:
        example = group["examples"][-1] if group["examples"] else {}
        place = example.get("line") or example.get("function") or "no line of yours"
        title = f"{group['count']:,} records fail at {group['node']}: {group['exception']}"
        done = "kept as dead letters" if group["action"] == "dead_letter" else "left out"
        detail = f"{example.get('message', '')} · {place} · last: {example.get('record')} · they are {done}"
        yield _finding("error", title, detail, "errors")


def _slow(overview: Overview) -> Iterator[Finding]:
    """Name the node that has lately taken the most time, if there is lag."""
    lately = overview["lately"]
    if lately is None or not (overview["lag"] and lately["lag"]):
        return
    total = sum(lately["seconds"].values())
    if total < BUSY_SHARE * lately["elapsed"]:
        return
    name = max(lately["seconds"], key=lambda each: lately["seconds"][each])
    share = lately["seconds"][name] / total
    if share >= SLOW_SHARE:
        functions = ", ".join(overview["nodes"][name]["functions"])
        detail = f"{functions or 'no function of yours'} · {overview['lag']:,} records wait"
        yield _finding("warning", f"{name} takes {share:.0%} of the time of all nodes", detail, "topology")


def _stuck(overview: Overview) -> Iterator[Finding]:
    """Name the partition that holds event time back: it has no new records, while others are ahead."""
    for topic in {row["topic"] for row in overview["inputs"]}:
        rows = [row for row in overview["inputs"] if row["topic"] == topic and row.get("watermark", -1) >= 0]
        waited = [row for row in rows if not row["idle"]]
        if not waited:
            continue
        last, first = min(waited, key=lambda row: row["watermark"]), max(rows, key=lambda row: row["watermark"])
        behind = first["watermark"] - last["watermark"]
        if behind >= BEHIND_MS and not last["lag"]:
            title = f"Event time waits for {topic}-{last['partition']}: it has no new records"
            detail = (
                f"It is {behind / 1000:,.0f} s behind {topic}-{first['partition']}, so windows do not close. "
                "Write to it, or let the source go on without it: WatermarkStrategy.….idle_after(duration)"
            )
            yield _finding("warning", title, detail, "inputs")


def _long_step(overview: Overview) -> Iterator[Finding]:
    now = overview["now"]
    if now is not None and now["for_us"] >= LONG_STEP_US:
        title = f"Epoch {now['epoch']} has been in the step {now['step']!r} for {now['for_us'] / 1e6:,.0f} s"
        yield _finding("warning", title, "/debug/threads shows what is done now.", "epochs")


def _retried(overview: Overview) -> Iterator[Finding]:
    failures = overview["failures"]
    if failures and failures[0]["epoch"] > (overview["epoch"] or 0):
        last = failures[0]
        title = f"Epoch {last['epoch']} is run again: {last['error']}"
        yield _finding("warning", title, f"{last['step']}: {last['message'][:300]}", "errors")


Rule = Callable[[Overview], Iterator[Finding]]
RULES: tuple[Rule, ...] = (_ended, _starting, _failing, _retried)
WHILE_RUNNING: tuple[Rule, ...] = (_paused, _slow, _stuck, _long_step)
