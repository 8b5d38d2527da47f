"""Records that a policy left out: how many, by node and exception, and the first of each as examples.

A task collects them, its report takes them to the driver, and the driver adds them up for ``/v1/errors``. Examples are bounded: a topic
full of bad records costs a dictionary look-up for each.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from pathlib import Path

import msgspec

from penstock.masking import scrubbed
from penstock.record import Origin

#: groups, examples of each group, and characters of a message that are kept
MOST_GROUPS, MOST_EXAMPLES, MOST_TEXT = 100, 5, 500
#: what is left to one group once there are too many
OTHERS = "(others)"
_HOUSE = str(Path(__file__).parents[1])


class FailedRecord(msgspec.Struct, frozen=True):
    """One record that failed. ``line``: file and line of the user's code that raised; ``function``: the node's function."""

    message: str
    record: str | None
    timestamp: int
    function: str | None = None
    line: str | None = None


class FailureGroup(msgspec.Struct):
    """Records that failed at one node with one exception. ``action``: what the policy said, skip or dead_letter."""

    node: str
    reason: str
    exception: str
    action: str
    count: int = 0
    examples: list[FailedRecord] = []

    @property
    def kind(self) -> tuple[str, str, str, str]:
        """What its records have in common."""
        return self.node, self.reason, self.exception, self.action


class FailureGroups:
    """Groups of failed records, each with its first examples."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, str, str], FailureGroup] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def add(
        self, node: str, reason: str, action: str, origin: Origin, error: BaseException, function: str | None = None
    ) -> None:
        """Count a record that failed; the first of its group are described."""
        group = self._group((node, reason, type(error).__qualname__, action))
        group.count += 1
        if len(group.examples) < MOST_EXAMPLES:
            message = scrubbed(f"{error}")[:MOST_TEXT]
            example = FailedRecord(message, record_name(origin), origin.timestamp, function, user_line(error))
            group.examples.append(example)

    def merge(self, groups: Iterable[FailureGroup]) -> None:
        """Add what others have counted; the newest examples stay."""
        for other in groups:
            group = self._group(other.kind)
            group.count += other.count
            group.examples = [*group.examples, *other.examples][-MOST_EXAMPLES:]

    def take(self) -> list[FailureGroup]:
        """Return the groups, once."""
        found, self._groups = [*self._groups.values()], {}
        return found

    def groups(self) -> list[FailureGroup]:
        """Return the groups, those with the most records first."""
        return sorted([*self._groups.values()], key=lambda group: -group.count)

    def _group(self, kind: tuple[str, str, str, str]) -> FailureGroup:
        if kind not in self._groups and len(self._groups) >= MOST_GROUPS:
            kind = (kind[0], kind[1], OTHERS, kind[3])
        found = self._groups.get(kind)
        if found is None:
            found = self._groups[kind] = FailureGroup(*kind)
        return found


def record_name(origin: Origin) -> str | None:
    """Return topic, partition and offset of a record, as messages write them; None if no record was at hand.

    >>> record_name(Origin("orders", 1, 7, 0, None, None, ()))
    'orders-1@7'
    """
    return None if origin.topic is None else f"{origin.topic}-{origin.partition}@{origin.offset}"


def user_line(error: BaseException) -> str | None:
    """Return file and line of the innermost frame of an error that is not Penstock's own; None if there is none."""
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if not name.startswith((_HOUSE, "<")):
            found = f"{name}:{line}"
    return found
