"""Session windows: how many purchases each customer has without a pause of a minute between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bench.data import purchases
from bench.workloads.base import Compare, Emission, Size, Workload
from penstock import Serdes, SessionWindows, StreamsBuilder
from penstock.log.base import Row

GAP_MS = 60_000


def build(sources: Sequence[str], target: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> with TopologyTestDriver(build(["in"], "out")) as driver:
    ...     driver.input_topic("in").pipe_all([("k", {}), ("k", {})], start=5, step=GAP_MS)
    ...     driver.output_topic("out", key=Serdes.session_windowed(Serdes.string), value=Serdes.int64).read_table()
    {Windowed(key='k', start=5, end=60005): 2}
    """
    builder = StreamsBuilder()
    (
        builder.stream(sources[0], key=Serdes.string, value=Serdes.bytes)
        .group_by_key()
        .windowed_by(SessionWindows(GAP_MS))
        .count(store="counts")
        .to_stream()
        .to(target, key=Serdes.session_windowed(Serdes.string), value=Serdes.int64)
    )
    return builder


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out: the key of a session ends with its end and its start, eight bytes each."""
    open_: dict[bytes | None, tuple[int, int, int]] = {}
    for _, _, key, _, time, _ in rows:
        start, end, count = open_.get(key, (time, time, 0))
        if time - end > GAP_MS:
            yield _session(key, start, end), count.to_bytes(8, "big")
            start, count = time, 0
        open_[key] = (start, time, count + 1)
    for key, (start, end, count) in open_.items():
        yield _session(key, start, end), count.to_bytes(8, "big")


def _session(key: bytes | None, start: int, end: int) -> bytes:
    return (key or b"") + end.to_bytes(8, "big") + start.to_bytes(8, "big")


WORKLOADS = (
    Workload(
        "session",
        "count in sessions that end after a minute, 50 k keys",
        "session",
        ["purchases"],
        Size(2_000_000, 50_000),
        purchases,
        expected,
        Compare.LAST,
    ),
)
