"""Which figures stand in a table, by the kind of the workload, and how numbers are written."""

from __future__ import annotations

import math

from bench.runs import Middle
from bench.workloads.base import Kind

#: of look-ups over HTTP beside a run; those that were asked and got another status than 200 are the others
LOOKUPS = {
    "look-ups p50 ms": "lookup_p50_ms",
    "p99": "lookup_p99_ms",
    "longest": "lookup_longest_ms",
    "asked late p99": "lookup_late_p99_ms",
    "answered": "lookup_answered",
    "other": "lookup_others",
}
#: by kind: columns of the table, and the figures in them
COLUMNS: dict[Kind, dict[str, str]] = {
    Kind.RATE: {
        "steady/s": "steady",
        "from RUNNING/s": "from_running",
        "from start/s": "from_start",
        "CPU µs": "cpu_us_per_record",
        "broker CPU µs": "broker_cpu_us_per_record",
        "CPU s": "cpu_seconds",
        "peak MB": "peak_mb",
        "shared once": "peak_proportional_mb",
        "commit s": "seconds_between_commits",
        "outputs": "outputs",
        "others' cores": "cores_of_others",
        "machine": "machine_speed",
    },
    Kind.LATENCY: {
        "p50 ms": "p50_ms",
        "p95 ms": "p95_ms",
        "p99 ms": "p99_ms",
        "longest ms": "longest_ms",
        "results": "results",
        "CPU s": "cpu_seconds",
        "peak MB": "peak_mb",
    },
    Kind.RESTORE: {
        "rows/s": "restored_per_second",
        "rows": "restored",
        "restore s": "seconds_of_restore",
        "to RUNNING s": "seconds_to_running",
        "CPU s": "cpu_seconds",
        "peak MB": "peak_mb",
    },
    Kind.RESTART: {
        "to result s": "seconds_to_result",
        "to RUNNING s": "seconds_to_running",
        "caught up s": "seconds_to_caught_up",
        "CPU s": "cpu_seconds",
        "peak MB": "peak_mb",
    },
    Kind.GROWTH: {
        "CPU µs": "cpu_us_per_record",
        "steady/s": "steady",
        "broker CPU µs": "broker_cpu_us_per_record",
        "peak MB": "peak_mb",
        "commit s": "seconds_between_commits",
    },
    Kind.ASKED: {
        "p99 ms": "p99_ms",
        "p50 ms": "p50_ms",
        "longest ms": "longest_ms",
        **LOOKUPS,
        "CPU s": "cpu_seconds",
        "others' cores": "cores_of_others",
    },
    Kind.ASKED_RATE: {
        "steady/s": "steady",
        "CPU µs": "cpu_us_per_record",
        **LOOKUPS,
        "others' cores": "cores_of_others",
        "machine": "machine_speed",
    },
}


def number(value: float) -> str:
    """Write a number with as many digits as matter.

    >>> number(123456.7), number(12.345), number(1.2345), number(math.nan)
    ('123,457', '12.3', '1.23', '-')
    """
    if math.isnan(value):
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spread(found: Middle) -> str:
    """Write a median, and the spread if there is one.

    >>> spread(Middle(2, 1, 3)), spread(Middle(2, 2, 2))
    ('2.00 (1.00 to 3.00)', '2.00')
    """
    if found.least == found.most or math.isnan(found.median):
        return number(found.median)
    return f"{number(found.median)} ({number(found.least)} to {number(found.most)})"
