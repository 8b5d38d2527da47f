"""What is too much for an epoch is run again in smaller ones, with equal results; one record that cannot be run is named."""

import os
import resource
from pathlib import Path

import pytest

from penstock import EngineError, Serdes, Stores, StreamsBuilder
from penstock.dev.watch import session
from penstock.log.kafka import KafkaLog

START = 1_600_000_020_000
TEXT = {"key": Serdes.string, "value": Serdes.string}
MB = 1 << 20
LONG = bool(os.environ.get("PENSTOCK_LONG"))
#: what a worker may have, and how many records of 1 MB are more than that
MEMORY, TOO_MANY = 2048 * MB, 2500


@pytest.fixture
def topics(cluster):
    return cluster.topic("lines"), cluster.topic("out")


def counting(topics, **options):
    made = StreamsBuilder()
    lines = made.stream(topics[0], **TEXT)
    if options:
        lines = lines.map_values(**options)
    lines.group_by_key().count(store=Stores.key_value("counts")).to_stream().to(topics[1], value=Serdes.int64)
    return made


def offsets_of(ranges):
    return sum(end - start for _, _, start, end in ranges)


class Fails:
    """An observer that lets the lanes of some epochs fail, as if a worker was lost."""

    def __init__(self, loop, when):
        self._loop = loop
        self._when = when
        self.taken = []
        loop._pause = lambda seconds: None
        loop.observers.append(self)

    def __call__(self, step, epoch):
        if step != "run lanes":
            return
        self.taken.append(offsets_of(self._loop.attempts.ranges))
        if self._when(self._loop.attempts.ranges):
            raise EngineError("a worker was lost, planted")


@pytest.mark.parametrize("inline", [0, 20_000], ids=["jobs", "inline"])
def test_what_a_worker_is_lost_over_is_run_in_halves(start, cluster, topics, inline):
    cluster.send(topics[0], *((f"k{n % 5}", "v", START) for n in range(40)))
    driven = start(counting(topics), inline_epoch_records=inline)
    fails = Fails(driven.loop, lambda ranges: offsets_of(ranges) > 11)
    driven.drain()
    assert fails.taken[:3] == [40, 20, 10]
    assert driven.loop.totals.retries >= 2
    assert dict(cluster.numbers(topics[1])) == {f"k{n}": 8 for n in range(5)}


def test_a_record_that_no_worker_lives_through_is_named(start, cluster, topics):
    cluster.send(topics[0], *((f"k{n % 5}", "v", START) for n in range(40)))
    driven = start(counting(topics))
    Fails(driven.loop, lambda ranges: any(start <= 13 < end for _, _, start, end in ranges))
    with pytest.raises(
        EngineError, match=rf"a worker was lost, planted. It was to read the offsets {topics[0]}-0 13 to 13"
    ):
        driven.drain()
    assert driven.loop.committed.positions == {(topics[0], 0): 13}


def exhausted_once(flag, value):
    if not flag.exists():
        flag.touch()
        raise MemoryError("no memory, planted")
    return value


def test_to_run_out_of_memory_is_no_fault_of_the_record(start, cluster, topics, tmp_path):
    flag = tmp_path / "flag"
    cluster.send(topics[0], *((f"k{n % 5}", "v", START) for n in range(10)))
    driven = start(counting(topics, f=lambda value: exhausted_once(flag, value)), on_processing_error="skip")
    driven.drain()
    assert driven.loop.totals.retries == 1
    assert dict(cluster.numbers(topics[1])) == {f"k{n}": 2 for n in range(5)}


@pytest.fixture
def little_memory():
    """Let the Python workers of this process have only so much memory."""
    workers = [pid for pid in session(os.getsid(0)) if _is_worker(pid)]
    assert workers
    for pid in workers:
        resource.prlimit(pid, resource.RLIMIT_DATA, (MEMORY, resource.RLIM_INFINITY))
    yield
    for pid in workers:
        if Path(f"/proc/{pid}").exists():
            resource.prlimit(pid, resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _is_worker(pid):
    command = Path(f"/proc/{pid}/cmdline").read_bytes()
    return b"pyspark.daemon" in command and _parents(pid) & {os.getpid()}


def _parents(pid):
    found = set()
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.add(pid)
    return found


def send_large(cluster, topic, count):
    """Send records of 1 MB that take little room in the topic."""
    log = KafkaLog(cluster.servers, {"compression.type": "lz4", "producer.batch.size": MB})
    producer = log.producer(None)
    producer.begin()
    producer.produce((topic, 0, b"k", b"v" * 980_000, START, ()) for _ in range(count))
    producer.commit()
    log.close()


def test_every_epoch_is_bounded_in_bytes_the_first_one_too(start, cluster, topics):
    send_large(cluster, topics[0], 60)
    driven = start(counting(topics), max_epoch_bytes=10 * MB, inline_epoch_records=0)
    fails = Fails(driven.loop, lambda ranges: False)
    driven.drain()
    assert fails.taken[0] == 60
    assert 1 < max(fails.taken[1:]) <= 11
    assert driven.loop.totals.retries == 1
    assert dict(cluster.numbers(topics[1])) == {"k": 60}


@pytest.fixture
def workers(spark_session):
    """Spark's Python workers are there."""
    assert spark_session.sparkContext.parallelize(range(4), 4).map(lambda n: n).count() == 4


@pytest.mark.skipif(not LONG, reason="takes a minute: PENSTOCK_LONG=1")
def test_a_backlog_of_large_records_goes_through_workers_with_little_memory(
    start, cluster, topics, workers, little_memory
):
    send_large(cluster, topics[0], TOO_MANY)
    driven = start(counting(topics), inline_epoch_records=0)
    driven.drain()
    assert dict(cluster.numbers(topics[1])) == {"k": TOO_MANY}
    assert driven.loop.totals.epochs >= TOO_MANY * 980_000 // (256 * MB)
