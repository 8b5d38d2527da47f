"""Tumbling windows: how many purchases each customer has in every five minutes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from bench.data import purchases
from bench.workloads.base import Compare, Emission, Size, Workload
from penstock import Serdes, StreamsBuilder, TimeWindows
from penstock.log.base import Row

WINDOW_MS = 300_000


def build(sources: Sequence[str], target: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build(["in"], "out")) as driver:
    ...     driver.input_topic("in").pipe("k", {}, timestamp=WINDOW_MS + 1)
    ...     driver.output_topic("out", key=Serdes.windowed(Serdes.string, WINDOW_MS), value=Serdes.int64).read_table()
    {Windowed(key='k', start=300000, end=600000): 1}
    """
    builder = StreamsBuilder()
    (
        builder.stream(sources[0], key=Serdes.string, value=Serdes.bytes)
        .group_by_key()
        .windowed_by(TimeWindows(WINDOW_MS))
        .count(store="counts")
        .to_stream()
        .to(target, key=Serdes.windowed(Serdes.string, WINDOW_MS), value=Serdes.int64)
    )
    return builder


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out: the key of a window ends with its start, eight bytes."""
    counts: Counter[tuple[bytes | None, int]] = Counter()
    for _, _, key, _, time, _ in rows:
        counts[key, time - time % WINDOW_MS] += 1
    for (key, start), count in counts.items():
        yield (key or b"") + start.to_bytes(8, "big"), count.to_bytes(8, "big")


WORKLOADS = (
    Workload(
        "tumbling",
        "count in tumbling windows of 5 minutes, 50 k keys",
        "tumbling",
        ["purchases"],
        Size(3_000_000, 50_000),
        purchases,
        expected,
        Compare.LAST,
    ),
)
