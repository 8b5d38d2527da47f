"""What Prometheus and Grafana are given: alert rules and a board, made from the table of metrics.

``python tests/house/generated.py`` writes them to ``deploy/``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from penstock.admin.metric_table import SECTIONS, Metric, MetricKind

#: which application a panel shows
CHOSEN = 'application_id=~"$application"'
WIDTH, HEIGHT, COLUMNS = 8, 7, 24


@dataclass(frozen=True, slots=True)
class AlertRule:
    """A rule of Prometheus. ``lasting``: how long the expression must hold."""

    name: str
    expression: str
    lasting: str
    severity: str
    summary: str
    #: what the reader is to do
    remedy: str


_BY_APP = "sum by (application_id) (penstock_lag_records)"
ALERTS: tuple[AlertRule, ...] = (
    AlertRule(
        "PenstockNoCommit",
        f"{_BY_APP} > 0 and on (application_id) (time() - penstock_last_commit_timestamp_seconds > 120)"
        " unless on (application_id) (penstock_paused == 1)",
        "1m",
        "critical",
        "{{ $labels.application_id }} has committed nothing for two minutes, though records wait",
        "Look at /health/live and /debug/barriers: which step does not end?",
    ),
    AlertRule(
        "PenstockLagRising",
        f"deriv(({_BY_APP})[15m:1m]) > 0 and on (application_id) ({_BY_APP} > 0)",
        "15m",
        "warning",
        "{{ $labels.application_id }} falls behind: its lag has risen for 15 minutes",
        "Look at the time of each node on the page: one slow function, or too few cores?",
    ),
    AlertRule(
        "PenstockDeadLetters",
        "increase(penstock_dead_letters_total[5m]) > 0",
        "0m",
        "warning",
        "{{ $labels.application_id }} writes dead letters",
        "Look at /v1/errors, mend what is wrong, then penstock dead-letters redrive.",
    ),
    AlertRule(
        "PenstockEventTimeBehind",
        "penstock_event_time_lag_seconds > 900",
        "10m",
        "warning",
        "event time of {{ $labels.topic }} in {{ $labels.application_id }} is a quarter of an hour behind the clock",
        "Look at /v1/watermarks: a partition without data holds time back, or the application has a backlog.",
    ),
    AlertRule(
        "PenstockDiskFills",
        "penstock_state_disk_free_bytes < 2e9 or predict_linear(penstock_state_disk_free_bytes[1h], 4 * 3600) < 0",
        "5m",
        "critical",
        "the disk with the state of {{ $labels.application_id }} is full, or will be within four hours",
        "Free space, or shorten the retention of stores; /v1/state says how large they are.",
    ),
)


def query_of(metric: Metric) -> str:
    """Return what a panel asks for a metric.

    >>> from penstock.admin.metric_table import BY_NAME
    >>> query_of(BY_NAME["node_seconds_total"])
    'sum by (node) (rate(penstock_node_seconds_total{application_id=~"$application"}[$__rate_interval]))'
    """
    name = f"penstock_{metric.name}"
    by = ", ".join(metric.labels)
    if metric.kind is MetricKind.COUNTER:
        rate = f"rate({name}{{{CHOSEN}}}[$__rate_interval])"
        return f"sum by ({by}) ({rate})" if by else f"sum({rate})"
    if metric.kind is MetricKind.HISTOGRAM:
        by = ", ".join(("le", *metric.labels))
        return f"histogram_quantile(0.99, sum by ({by}) (rate({name}_bucket{{{CHOSEN}}}[$__rate_interval])))"
    return f"{name}{{{CHOSEN}}}"


def unit_of(metric: Metric) -> str:
    """Return Grafana's name of the unit of a panel."""
    base = metric.name.removesuffix("_total")
    if base.endswith("timestamp_seconds") or base in ("start_time_seconds", "stream_time_seconds"):
        return "dateTimeAsIso"
    rate = metric.kind is MetricKind.COUNTER
    if base.endswith("seconds"):
        return "percentunit" if rate else "s"  # seconds a second are a share of one core
    if base.endswith("bytes") or "bytes_" in base:
        return "Bps" if rate else "bytes"
    return "cps" if rate else "short"


def _panel(number: int, metric: Metric, x: int, y: int) -> dict[str, Any]:
    legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels) or "{{application_id}}"
    name = metric.name.removesuffix("_total").replace("_", " ")
    title = f"{name}, p99" if metric.kind is MetricKind.HISTOGRAM else name
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "description": metric.help,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": unit_of(metric)}, "overrides": []},
        "targets": [{"refId": "A", "expr": query_of(metric), "legendFormat": legend}],
    }


def board() -> dict[str, Any]:
    """Return the board as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, metrics in SECTIONS.items():
        grid = {"h": 1, "w": COLUMNS, "x": 0, "y": y}
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "gridPos": grid})
        for place, metric in enumerate(metrics):
            line, column = divmod(place, COLUMNS // WIDTH)
            panels.append(_panel(len(panels) + 1, metric, column * WIDTH, y + 1 + line * HEIGHT))
        y += 1 + HEIGHT * -(-len(metrics) // (COLUMNS // WIDTH))
    choices = "label_values(penstock_info, application_id)"
    variables = [
        {"name": "datasource", "type": "datasource", "query": "prometheus"},
        {
            "name": "application",
            "type": "query",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "query": choices,
            "refresh": 2,
            "multi": True,
            "includeAll": True,
        },
    ]
    return {
        "uid": "penstock",
        "title": "Penstock",
        "tags": ["kafka", "penstock"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": panels,
    }


def board_json() -> str:
    """Return the file ``deploy/grafana/penstock.json``."""
    return json.dumps(board(), indent=2) + "\n"


def alerts_yaml() -> str:
    """Return the file ``deploy/prometheus/alerts.yml``."""
    lines = ["# Generated by tests/house/generated.py from penstock.admin.monitoring; do not edit.", "groups:"]
    lines += ["  - name: penstock", "    rules:"]
    for rule in ALERTS:
        lines += [
            f"      - alert: {rule.name}",
            f"        expr: {json.dumps(rule.expression)}",
            f"        for: {rule.lasting}",
            "        labels:",
            f"          severity: {rule.severity}",
            "        annotations:",
            f"          summary: {json.dumps(rule.summary)}",
            f"          description: {json.dumps(rule.remedy)}",
        ]
    return "\n".join(lines) + "\n"


def config_map_yaml() -> str:
    """Return the file ``deploy/kubernetes/dashboard.yaml``: the board, as Grafana's sidecar looks for boards."""
    lines = ["# Generated by tests/house/generated.py from penstock.admin.monitoring; do not edit."]
    lines += ["apiVersion: v1", "kind: ConfigMap", "metadata:", "  name: penstock-dashboard"]
    lines += ['  labels: {grafana_dashboard: "1", app.kubernetes.io/part-of: penstock}', "data:", "  penstock.json: |"]
    return "\n".join([*lines, *(f"    {line}" for line in board_json().splitlines())]) + "\n"
