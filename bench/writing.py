"""Data are written once for each workload; on the way the results that they must come to are worked out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.progress import Progress

from bench.data import CHUNK
from bench.results import Collected
from bench.workloads.base import Size, Workload
from penstock.log.base import Log, Offsets, Producer, Row, TopicPartition, TopicSpec

#: records are old the moment they are written: nothing may be deleted by age
KEPT = {"retention.ms": "-1"}
#: of each partition, for the broker
WARM_RECORDS = 200_000


@dataclass(frozen=True, slots=True)
class Written:
    """What was written, where each partition ends, and what must come out. ``records``: of all topics together."""

    workload: Workload
    size: Size
    topics: Sequence[str]
    ends: Offsets
    right: Collected
    records: int

    def expected_again(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Yield once more what must come out: to say where results differ."""
        return self.workload.expected(self.workload.rows(self.size, self.topics))


def write(log: Log, workload: Workload, size: Size, progress: Progress | None = None, prefix: str = "") -> Written:
    """Make the topics of a workload and fill them; keys go to the partition to which Java's producer sends them."""
    topics = workload.topics(prefix)
    log.admin.ensure_topics([TopicSpec(topic, workload.partitions, KEPT) for topic in topics])
    producer = log.producer(None)
    producer.init()
    producer.begin()
    sent = _sent(producer, workload.rows(size, topics), workload.name, size, progress)
    right = Collected(workload.compare).add(workload.expected(sent))
    producer.flush()
    producer.close()
    ends = log.admin.end_offsets(places(topics, workload.partitions))
    return Written(workload, size, topics, ends, right, sum(ends.values()))


def places(topics: Iterable[str], partitions: int) -> list[TopicPartition]:
    """Return all partitions of topics."""
    return [(topic, partition) for topic in topics for partition in range(partitions)]


def planned(workload: Workload, size: Size) -> Written:
    """Say what must come out of data that are written later, while the system runs."""
    right = Collected(workload.compare).add(workload.expected(workload.rows(size, workload.topics())))
    return Written(workload, size, (), {}, right, size.records)


def empty(log: Log, later: Written, prefix: str) -> Written:
    """Make the topics of data that are written later."""
    workload = later.workload
    topics = workload.topics(prefix)
    log.admin.ensure_topics([TopicSpec(topic, workload.partitions, KEPT) for topic in topics])
    return replace(later, topics=topics, ends=dict.fromkeys(places(topics, workload.partitions), 0))


def _sent(producer: Producer, rows: Iterator[Row], name: str, size: Size, progress: Progress | None) -> Iterator[Row]:
    """Yield the rows, each of which is written."""
    bar = progress.add_task(f"{name}: writing data", total=size.records) if progress else None
    chunk: list[Row] = []
    for row in rows:
        chunk.append(row)
        yield row
        if len(chunk) == CHUNK:
            producer.produce(chunk)
            chunk.clear()
            if progress is not None and bar is not None:
                progress.update(bar, advance=CHUNK)
    producer.produce(chunk)
    if progress is not None and bar is not None:
        progress.remove_task(bar)


def warm(log: Log, written: Written) -> None:
    """Read some of the input and commit some transactions, so that the first system does not meet a cold broker."""
    reader = log.reader()
    log.admin.ensure_topics([TopicSpec("warm-up", written.workload.partitions, KEPT)])
    producer = log.producer("warm-up")
    producer.init()
    for (topic, partition), end in written.ends.items():
        for after, batch in reader.batches(topic, partition, 0, min(end, WARM_RECORDS), most=5_000):
            producer.begin()
            producer.produce(_copied(batch))
            producer.send_offsets("warm-up", {(topic, partition): after})
            producer.commit()
    producer.close()
    reader.close()
    log.admin.delete_topics(["warm-up"])


def _copied(batch: Iterable[tuple[bytes | None, bytes | None, int]]) -> Iterator[Row]:
    for key, value, timestamp in batch:
        yield "warm-up", None, key, value, timestamp, ()
