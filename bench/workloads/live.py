"""Count and sum on records that come while the system runs, through a restore, through a kill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench.data import purchases
from bench.workloads import count_sum
from bench.workloads.base import Compare, Kind, Size, Workload
from penstock.log.base import Row

#: of a measurement of latency, warm-up included
SECONDS = 75
RATES = {"1k": 1_000, "5k": 5_000, "20k": 20_000}


def one_of_each(size: Size, topics: Sequence[str]) -> Iterator[Row]:
    """Yield a purchase of every customer.

    >>> [row[2] for row in one_of_each(Size(3), ["in"])]
    [b'k0', b'k1', b'k2']
    """
    for number, row in enumerate(purchases(size, topics)):
        yield row[0], None, b"k%d" % number, *row[3:]


LATENCY = tuple(
    Workload(
        f"latency-{name}",
        f"latency of count and sum at {rate:,} records/s",
        "count_sum",
        ["purchases"],
        Size(rate * SECONDS, 50_000),
        purchases,
        count_sum.expected,
        Compare.LAST,
        kind=Kind.LATENCY,
        rate=rate,
        quick=rate * 5,
    )
    for name, rate in RATES.items()
)
RESTORE = Workload(
    "restore",
    "restore of 5 M keys after the state folder was deleted",
    "count_sum",
    ["purchases"],
    Size(5_000_000),
    one_of_each,
    count_sum.expected,
    Compare.LAST,
    kind=Kind.RESTORE,
)
RESTART = replace(
    LATENCY[1],
    name="restart",
    title="restart after a kill, count and sum at 5,000 records/s",
    kind=Kind.RESTART,
    quick=50_000,
)
ASKED = replace(
    LATENCY[1],
    name="lookups-5k",
    title="1,000 look-ups/s over HTTP beside count and sum at 5,000 records/s",
    kind=Kind.ASKED,
)
ASKED_RATE = replace(
    count_sum.WORKLOADS[0],
    name="lookups-full",
    title="100 look-ups/s over HTTP beside count and sum at full speed",
    kind=Kind.ASKED_RATE,
    size=Size(12_000_000, 50_000),
)
WORKLOADS = (*LATENCY, RESTORE, RESTART, ASKED, ASKED_RATE)
