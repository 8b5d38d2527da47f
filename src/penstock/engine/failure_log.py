"""A log line for each record that was left out: its error, the user's line of code, where it came from.

A topic full of bad records must not fill the disk with lines: of one kind (node, reason, exception, action) there are so many in a
span of time, and what was left out is counted in a line of its own, at the latest with the next record of the kind.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.clock import Clock
from penstock.engine.work import Work
from penstock.log_lines import record_fields
from penstock.protocol.failed_records import FailedRecord, FailureGroup, FailureGroups

logger = logging.getLogger("penstock.records")

#: lines of one kind in a span, and the span in milliseconds
MOST_LINES, SPAN_MS = 5, 10_000
#: what the policies did, in words
DONE = {"skip": "skipped", "dead_letter": "kept as dead letter"}


@dataclass(slots=True)
class _Spent:
    since: int
    lines: int = 0
    silent: int = 0


class FailureLog:
    """Writes the lines of each committed epoch: an attempt that is run again says nothing twice."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent: dict[tuple[str, ...], _Spent] = {}

    def committed(self, work: Work) -> None:
        """Write of what a committed epoch has left out."""
        groups = FailureGroups()
        groups.merge(work.failures.groups())
        dropped: Counter[tuple[str, str]] = Counter()
        for report in work.reports:
            groups.merge(report.failures)
            for node, reason, count in report.dropped:
                dropped[node, reason] += count
        found = groups.groups()
        for group in found:  # each is counted as dropped, too
            dropped[group.node, group.reason] -= group.count
        self.failed(found)
        self.dropped(+dropped)

    def failed(self, groups: Iterable[FailureGroup]) -> None:
        """Write of records at which something failed."""
        for group in groups:
            spent = self._budget(group.kind)
            shown = group.examples[: max(0, MOST_LINES - spent.lines)]
            for example in shown:
                self._line(group, example)
            spent.lines += len(shown)
            self._silent(
                spent, group.count - len(shown), f"at node {group.node}: {group.reason}, {group.exception}", group.node
            )

    def dropped(self, counts: Counter[tuple[str, str]]) -> None:
        """Write of records that were dropped without an error: they were late, or had no key."""
        for (node, reason), count in counts.items():
            spent = self._budget((node, reason))
            if spent.lines:
                self._silent(spent, count, f"at node {node}: {reason}", node)
                continue
            spent.lines = 1
            logger.warning("%d dropped at node %s: %s", count, node, reason, extra={"node": node})

    def _budget(self, kind: tuple[str, ...]) -> _Spent:
        """Return what was written of a kind lately; say first what there was no line for before that."""
        now = self._clock.now_ms()
        spent = self._spent.get(kind)
        if spent is None or now - spent.since >= SPAN_MS:
            spent = self._spent[kind] = _Spent(now, silent=0 if spent is None else spent.silent)
        return spent

    def _silent(self, spent: _Spent, count: int, what: str, node: str) -> None:
        """Count records without a line; one line says how many, once in a span."""
        spent.silent += count
        if spent.silent and spent.lines <= MOST_LINES:
            spent.lines = MOST_LINES + 1
            logger.warning("%d more %s, without a line of their own", spent.silent, what, extra={"node": node})
            spent.silent = 0

    @staticmethod
    def _line(group: FailureGroup, example: FailedRecord) -> None:
        where = "" if example.record is None else f" {example.record}"
        at = "" if example.line is None else f" ({example.line})"
        fields = record_fields(example.record) | {"node": group.node, "error": group.exception}
        known = {"function": example.function, "line": example.line}
        logger.warning(
            "record%s %s at node %s: %s: %s%s",
            where,
            DONE.get(group.action, group.action),
            group.node,
            group.exception,
            example.message,
            at,
            extra=fields | {name: value for name, value in known.items() if value is not None},
        )
