"""The metrics of user code since the start, of all lanes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.distribution import Distribution
from penstock.processor.user_metrics import COUNTER, GAUGE, UserMetric


class UserTotals:
    """By name of a metric: its kind, and its values by node; of a gauge by node and lane."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        self.values: dict[str, dict[tuple[str, ...], float | Distribution]] = {}

    def add(self, lane: int, reported: Iterable[Iterable[Any]]) -> None:
        """Add what a lane has reported of an epoch."""
        for row in reported:
            metric = UserMetric(*row)
            if self.kinds.setdefault(metric.name, metric.kind) == metric.kind:
                self._add(lane, metric)

    def _add(self, lane: int, metric: UserMetric) -> None:
        found = self.values.setdefault(metric.name, {})
        known = found.get((metric.node,))
        if metric.kind == GAUGE:
            found[metric.node, str(lane)] = metric.values[0]
        elif metric.kind == COUNTER:
            found[metric.node,] = metric.values[0] + (known if isinstance(known, float) else 0.0)
        elif isinstance(known, Distribution):
            known.merge(metric.distribution())
        else:
            found[metric.node,] = metric.distribution()
