"""Word count: lines are split, words become keys, keys are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from bench.data import lines
from bench.workloads.base import Compare, Emission, Size, Workload
from penstock import Serdes, StreamsBuilder
from penstock.log.base import Row


def word(_key: str, value: str) -> str:
    return value


def build(sources: Sequence[str], target: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build(["in"], "out")) as driver:
    ...     driver.input_topic("in", value=Serdes.string).pipe(None, "tea and tea")
    ...     driver.output_topic("out", value=Serdes.int64).read_table()
    {'tea': 2, 'and': 1}
    """
    builder = StreamsBuilder()
    (
        builder.stream(sources[0], key=Serdes.string, value=Serdes.string)
        .flat_map_values(str.split)
        .group_by(word, key=Serdes.string, value=Serdes.string)
        .count(store="counts")
        .to_stream()
        .to(target, value=Serdes.int64)
    )
    return builder


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out."""
    counts: Counter[bytes] = Counter()
    for _, _, _, value, _, _ in rows:
        counts.update((value or b"").split())
    for name, count in counts.items():
        yield name, count.to_bytes(8, "big")


WORKLOADS = (
    Workload(
        "word-count",
        "word count: flat map, re-key, count; 8 words a line",
        "word_count",
        ["lines"],
        Size(3_000_000, 20_000),
        lines,
        expected,
        Compare.LAST,
        quick=20_000,
    ),
)
