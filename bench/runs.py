"""A row of figures for each run of a system, and what several rounds come to."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bench.workloads.base import Kind

#: the figures by which systems are compared; of the first the spread is shown
HEADLINES: dict[Kind, tuple[str, ...]] = {
    Kind.RATE: ("steady",),
    Kind.LATENCY: ("p50_ms", "p99_ms"),
    Kind.RESTORE: ("restored_per_second",),
    Kind.RESTART: ("seconds_to_result", "seconds_to_caught_up"),
    Kind.GROWTH: ("cpu_us_per_record",),
    Kind.ASKED: ("p99_ms",),
    Kind.ASKED_RATE: ("steady",),
}
#: kinds of which more is better
MORE_IS_BETTER = (Kind.RATE, Kind.RESTORE, Kind.ASKED_RATE)


@dataclass(slots=True)
class Run:
    """What one system did in one round. What the figures are depends on the kind of the workload."""

    workload: str
    system: str
    label: str
    round: int
    figures: dict[str, float]
    roles: dict[str, Any] = field(default_factory=dict)
    profile: dict[str, float] = field(default_factory=dict)
    #: what was varied, where one workload is run in several forms
    variant: str = ""

    @property
    def row(self) -> str:
        """What stands in one row of a table."""
        return f"{self.system}, {self.variant}" if self.variant else self.system

    @property
    def title(self) -> str:
        """What stands in the first cell of that row."""
        return f"{self.label}, {self.variant}" if self.variant else self.label


def runs_of(data: Mapping[str, Any], workload: str) -> list[Run]:
    """Return the runs of a workload from plain data, in which None is what is not a number.

    >>> data = {"workload": "w", "system": "s", "label": "S", "round": 0, "figures": {"steady": None}}
    >>> runs_of({"runs": [data]}, "w")[0].figures
    {'steady': nan}
    """
    found = [Run(**each) for each in data["runs"] if each["workload"] == workload]
    for run in found:
        run.figures = {name: math.nan if value is None else value for name, value in run.figures.items()}
    return found


class Middle(NamedTuple):
    """The median of the rounds, and the least and the most of them."""

    median: float
    least: float
    most: float


def middle(values: Iterable[float]) -> Middle:
    """Return the median and the spread.

    >>> middle([3, 1, 2])
    Middle(median=2, least=1, most=3)
    """
    found = list(values)
    return Middle(statistics.median(found), min(found), max(found))


def middles(runs: Sequence[Run]) -> dict[str, dict[str, Middle]]:
    """Return for every system of one workload (and every variant) the figures over its rounds."""
    systems: dict[str, list[Run]] = {}
    for run in runs:
        systems.setdefault(run.row, []).append(run)
    return {
        name: {figure: middle(run.figures[figure] for run in rounds) for figure in rounds[0].figures}
        for name, rounds in systems.items()
    }


#: whom each form of Penstock is compared with
COMPARED = {
    "penstock": (
        "java",
        "java-2s",
        "java-default",
        "penstock-before",
        "quixstreams",
        "quixstreams-2",
        "spark-streaming",
        "spark-tws",
    ),
    "penstock-watched": ("penstock-unwatched",),
    "penstock-alo": ("java-alo",),
}


def ratios(found: Mapping[str, Mapping[str, Middle]], kind: Kind) -> dict[str, dict[str, float]]:
    """Return the figures of Penstock by those of the others, from the medians: exactly once by exactly once.

    >>> ratios({"java": {"steady": middle([10])}, "penstock": {"steady": middle([30])}}, Kind.RATE)
    {'penstock/java': {'steady': 3.0}}
    """
    return {
        f"{ours}/{other}": {
            figure: found[ours][figure].median / found[other][figure].median for figure in HEADLINES[kind]
        }
        for ours, others in COMPARED.items()
        for other in others
        if ours in found and other in found
    }


def said(found: Mapping[str, float], kind: Kind) -> str:
    """Write ratios as a sentence.

    >>> said({"p50_ms": 1.5, "p99_ms": math.nan}, Kind.LATENCY)
    'p50 ms 1.50 (less is better)'
    """
    known = ", ".join(f"{name.replace('_', ' ')} {ratio:.2f}" for name, ratio in found.items() if not math.isnan(ratio))
    return known if kind in MORE_IS_BETTER or not known else f"{known} (less is better)"
