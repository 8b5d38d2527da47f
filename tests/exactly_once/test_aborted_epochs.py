"""An epoch that fails for a passing reason is aborted and run again (promise 1): nothing of the first run is ever seen.

The driver is not killed here: the steps of its loop fail, with the rows of the epoch already in the log.
"""

from __future__ import annotations

import os
import shutil

import pytest

from penstock import Serdes, Stores, StreamsBuilder
from penstock.clock import SystemClock
from penstock.config import load
from penstock.engine.engine import Engine
from penstock.engine.epoch import STEPS
from penstock.engine.record import EpochRecord, read_last
from penstock.errors import BrokerError
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog
from penstock.log.topics import changelog_name

KEYS = [f"key-{number}" for number in range(20)]
SHARDS = 8


def counting(source: str, sink: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    counted = builder.stream(source).group_by_key().count(store=Stores.key_value("counts", cached=False))
    counted.to_stream().to(sink, value=Serdes.int64)
    return builder


#: those before which a fault may pass
FAILING = STEPS[:-1]


class Failing:
    """Fails each epoch once, at one step after the other, when all that was produced has reached the log."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._failed = 0

    def __call__(self, step: str, epoch: int) -> None:
        if epoch > self._failed and step == FAILING[epoch % len(FAILING)]:
            self._failed = epoch
            self._engine._producer.flush()  # type: ignore[union-attr]
            raise BrokerError(f"planted before {step!r}", retriable=True, abortable=True)


class Run:
    """An application that is driven by hand, and what it has written."""

    def __init__(self, servers: str, session, state) -> None:
        self.name = f"aborted-{os.getpid()}"
        self.state = state
        self.log = KafkaLog(servers)
        self.log.admin.ensure_topics([TopicSpec(f"{self.name}.in", 1), TopicSpec(f"{self.name}.out", 1)])
        self._session = session
        self._reader = self.log.reader()
        self._input = self.log.producer(None)
        self._config = load(
            {"application_id": self.name, "bootstrap_servers": servers, "state_dir": str(state), "shards": SHARDS}
            | {"lanes": 2},
            environ={},
        )

    def engine(self) -> Engine:
        builder = counting(f"{self.name}.in", f"{self.name}.out")
        return Engine(builder.build(), self._config, self._session, clock=SystemClock())

    def send(self, keys) -> None:
        self._input.begin()
        self._input.produce([(f"{self.name}.in", 0, key.encode(), b"1", 1, ()) for key in keys])
        self._input.commit()

    def committed(self, topic: str, partition: int = 0, start: int = 0):
        end = self.log.admin.end_offsets([(topic, partition)])[topic, partition]
        return list(self._reader.read(topic, partition, start, end))

    def _settled_record(self, epoch: int) -> EpochRecord:
        """Wait for the markers of a commit, which are written after it returns."""
        while (record := read_last(self.log, self.name)) is None or record.epoch < epoch:
            pass
        return record

    def check_record(self, epoch: int) -> None:
        """The record of the last epoch must know of every row of the changelog."""
        record = self._settled_record(epoch)
        topic = changelog_name(self.name, "counts")
        for shard, end in enumerate(record.changelogs["counts"]):
            assert self.committed(topic, shard, end) == [], f"the record says that shard {shard} ends at {end}"


@pytest.fixture
def run(kafka_broker, spark_session, tmp_path):
    made = Run(kafka_broker.bootstrap_servers, spark_session, tmp_path / "state")
    yield made
    made.log.close()
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_an_epoch_that_fails_at_any_step_is_run_again_and_seen_once(run):
    epochs = len(FAILING)
    engine = run.engine()
    loop = engine.start()
    loop.observers.append(Failing(engine))
    for epoch in range(1, epochs + 1):
        run.send(KEYS)
        assert loop.step()
        run.check_record(epoch)
    assert loop.totals.retries == epochs
    engine.close()

    shutil.rmtree(run.state)
    engine = run.engine()
    loop = engine.start()
    assert dict(engine.view("counts").all()) == dict.fromkeys(KEYS, epochs)
    run.send(KEYS)
    assert loop.step()
    engine.close()
    found = {key: [] for key in KEYS}
    for record in run.committed(f"{run.name}.out"):
        found[record.key.decode()].append(Serdes.int64.deserialize(record.value))
    assert found == {key: list(range(1, epochs + 2)) for key in KEYS}
