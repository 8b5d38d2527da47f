"""The rules of time in the test driver; the same cases run through Spark and a real broker in tests/spark/test_time.py."""

import pytest
from tests.testing.time_cases import CASES, PARTITIONS, SHARDS, TEXT, Restarted, Sent, Settled, Waited

from penstock import StreamsBuilder
from penstock.testing import TopologyTestDriver


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("each", CASES, ids=lambda case: case.name)
def test_in_the_driver(each, lanes):
    builder = StreamsBuilder()
    each.build(builder)
    config = {"shards": SHARDS, **each.config}
    with TopologyTestDriver(builder, config=config, lanes=lanes, partitions=PARTITIONS, auto_commit=False) as driver:
        topics = {name: driver.input_topic(name, **TEXT) for name in each.inputs}
        out = driver.output_topic("out", **TEXT)
        for number, step in enumerate(each.steps):
            match step:
                case Sent(key, value, timestamp, partition, topic):
                    topics[topic].pipe(key, value, timestamp, partition=partition)
                case Waited(ms):
                    driver.advance_wall_clock(ms)
                case Settled(rows, dropped):
                    driver.commit()
                    found = sorted((record.value, record.timestamp) for record in out.read_all())
                    assert (number, found) == (number, sorted(rows))
                    assert driver.metrics()["dropped_by_reason"] == dropped
                case Restarted():
                    driver.commit()
