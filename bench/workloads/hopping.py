"""Hopping windows: how many purchases each customer has in every five minutes, counted anew every minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from bench.data import purchases
from bench.workloads.base import Compare, Emission, Size, Workload
from penstock import Serdes, StreamsBuilder, TimeWindows
from penstock.log.base import Row

WINDOW_MS = 300_000
ADVANCE_MS = 60_000


def build(sources: Sequence[str], target: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build(["in"], "out")) as driver:
    ...     driver.input_topic("in").pipe("k", {}, timestamp=ADVANCE_MS + 1)
    ...     driver.output_topic("out", key=Serdes.windowed(Serdes.string, WINDOW_MS), value=Serdes.int64).read_table()
    {Windowed(key='k', start=0, end=300000): 1, Windowed(key='k', start=60000, end=360000): 1}
    """
    builder = StreamsBuilder()
    (
        builder.stream(sources[0], key=Serdes.string, value=Serdes.bytes)
        .group_by_key()
        .windowed_by(TimeWindows(WINDOW_MS, advance=ADVANCE_MS))
        .count(store="counts")
        .to_stream()
        .to(target, key=Serdes.windowed(Serdes.string, WINDOW_MS), value=Serdes.int64)
    )
    return builder


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out: the key of a window ends with its start, eight bytes."""
    counts: Counter[tuple[bytes | None, int]] = Counter()
    for _, _, key, _, time, _ in rows:
        last = time - time % ADVANCE_MS
        for start in range(max(0, last - WINDOW_MS + ADVANCE_MS), last + 1, ADVANCE_MS):
            counts[key, start] += 1
    for (key, start), count in counts.items():
        yield (key or b"") + start.to_bytes(8, "big"), count.to_bytes(8, "big")


WORKLOADS = (
    Workload(
        "hopping",
        "count in windows of 5 minutes, one every minute, 50 k keys",
        "hopping",
        ["purchases"],
        Size(2_000_000, 50_000),
        purchases,
        expected,
        Compare.LAST,
        quick=20_000,
    ),
)
