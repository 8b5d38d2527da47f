"""Metrics of user code: ``context.metrics.counter(name)``, ``.gauge(name)``, ``.histogram(name)``.

A lane collects what its processors count, and its report takes it to the driver at the barrier: what an aborted epoch has counted
is counted when it is run again, and only then.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.distribution import SECONDS, Distribution
from penstock.errors import TopologyError

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class UserMetric(NamedTuple):
    """What one metric of one node has come to. ``values``: the number, or counts by bound and at last the sum."""

    node: str
    name: str
    kind: str
    bounds: tuple[float, ...]
    values: tuple[float, ...]

    def distribution(self) -> Distribution:
        """Return the values of a histogram."""
        return Distribution(self.bounds, [int(value) for value in self.values[:-1]], self.values[-1])


class UserCounter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        """Add to it."""
        if amount < 0:
            raise ValueError(f"a counter only grows, but inc() was given {amount!r}: use a gauge")
        self.value += amount


class UserGauge:
    """A number as it is now. Each lane has its own."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float | None = None

    def set(self, value: float) -> None:
        """Explain what it is."""
        self.value = float(value)


class UserHistogram:
    """How often numbers were up to each bound."""

    __slots__ = ("found",)

    def __init__(self, bounds: Sequence[float]) -> None:
        self.found = Distribution(tuple(bounds))

    def observe(self, value: float) -> None:
        """Add a number."""
        self.found.add(value)


class CollectedMetrics:
    """The metrics of all nodes of a step, or of a test driver."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], UserCounter | UserGauge | UserHistogram] = {}
        self._kinds: dict[str, str] = {}

    def get(self, node: str, name: str, kind: str, bounds: Sequence[float] = SECONDS) -> object:
        """Return a metric of a node, made when it is first asked for."""
        if _NAME.fullmatch(name) is None:
            raise TopologyError(
                f"a metric is named {name!r}, but must be of small letters, digits and _: for example orders_seen"
            )
        if self._kinds.setdefault(name, kind) != kind:
            raise TopologyError(f"the metric {name!r} is a {self._kinds[name]} already, and cannot be a {kind}, too")
        if (node, name) not in self._found:
            if kind == HISTOGRAM:
                self._found[node, name] = UserHistogram(bounds)
            else:
                self._found[node, name] = UserCounter() if kind == COUNTER else UserGauge()
        return self._found[node, name]

    def add(self, metric: UserMetric) -> None:
        """Add what a metric has come to elsewhere."""
        found = self.get(metric.node, metric.name, metric.kind, metric.bounds)
        if isinstance(found, UserHistogram):
            found.found.merge(metric.distribution())
        elif isinstance(found, UserCounter):
            found.inc(metric.values[0])
        elif isinstance(found, UserGauge):
            found.set(metric.values[0])

    def collected(self) -> list[UserMetric]:
        """Return what they have come to."""
        found = []
        for (node, name), metric in self._found.items():
            if isinstance(metric, UserHistogram):
                values = (*map(float, metric.found.counts), metric.found.total)
                found.append(UserMetric(node, name, HISTOGRAM, tuple(metric.found.bounds), values))
            elif metric.value is not None:
                kind = COUNTER if isinstance(metric, UserCounter) else GAUGE
                found.append(UserMetric(node, name, kind, (), (metric.value,)))
        return found

    def data(self) -> dict[str, dict[str, Any]]:
        """Return what they have come to, by name and node, as plain data."""
        found: dict[str, dict[str, Any]] = {}
        for metric in self.collected():
            value: Any = metric.values[0]
            if metric.kind == HISTOGRAM:
                spread = metric.distribution()
                value = {"bounds": list(spread.bounds), "counts": spread.counts, "sum": spread.total}
            found.setdefault(metric.name, {})[metric.node] = value
        return found


class NodeMetrics:
    """What ``context.metrics`` is: the metrics of one node, shown as ``penstock_user_<name>`` with the label ``node``."""

    __slots__ = ("_all", "_node")

    def __init__(self, node: str, metrics: CollectedMetrics) -> None:
        self._node = node
        self._all = metrics

    def counter(self, name: str) -> UserCounter:
        """Return a counter: ``inc()``. Its name at ``/metrics`` ends with ``_total``."""
        found = self._all.get(self._node, name, COUNTER)
        assert isinstance(found, UserCounter)
        return found

    def gauge(self, name: str) -> UserGauge:
        """Return a gauge: ``set(value)``."""
        found = self._all.get(self._node, name, GAUGE)
        assert isinstance(found, UserGauge)
        return found

    def histogram(self, name: str, bounds: Sequence[float] = SECONDS) -> UserHistogram:
        """Return a histogram: ``observe(value)``. ``bounds``: upper bounds, rising; by default those for seconds."""
        if list(bounds) != sorted(set(bounds)):
            raise TopologyError(f"the bounds of the histogram {name!r} must rise, but are {list(bounds)}")
        found = self._all.get(self._node, name, HISTOGRAM, bounds)
        assert isinstance(found, UserHistogram)
        return found
