"""The data of the benchmarks are the same in every run, and what must come of them is worked out from what is in the topics."""

import json
from itertools import pairwise

import pytest
from bench.data import purchases
from bench.registry import WORKLOADS
from bench.results import Collected
from bench.workloads.base import Size
from bench.writing import write

from penstock.log.kafka import KafkaLog
from penstock.log.memory import MemoryLog
from penstock.log.partitioner import partition_for

SMALL = Size(3_000, 100)


def rows_of(name, size=SMALL):
    workload = WORKLOADS[name]
    return list(workload.rows(size, workload.topics()))


def read_all(log, written):
    reader = log.reader()
    return [record for place, end in written.ends.items() for record in reader.read(*place, 0, end)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_size_gives_the_same_rows_in_the_order_of_their_times(name):
    rows = rows_of(name)
    assert rows == rows_of(name)
    assert len(rows) == SMALL.records
    assert all(one[4] <= other[4] for one, other in pairwise(rows))
    assert {row[0] for row in rows} == set(WORKLOADS[name].topics())


@pytest.mark.parametrize("name", WORKLOADS)
def test_something_must_come_out_of_every_workload(name):
    workload = WORKLOADS[name]
    assert Collected(workload.compare).add(workload.expected(rows_of(name))).results > 0


@pytest.mark.parametrize(("name", "size"), [("stateless-100b", 100), ("stateless-1kb", 1_000)])
def test_values_have_the_size_that_the_name_says(name, size):
    assert all(0.9 * size <= len(row[3]) <= 1.15 * size for row in rows_of(name, Size(1_000)))


def test_the_values_of_purchases_are_json():
    for _, _, key, value, _, _ in purchases(Size(1_000), ["in"]):
        assert json.loads(value)["customer"].encode() == key


def test_keys_are_where_the_producer_of_java_puts_them_and_nothing_ages(kafka_broker):
    log = KafkaLog(kafka_broker.bootstrap_servers)
    written = write(log, WORKLOADS["count-sum"], Size(25_000, 300), prefix="bench-data-")
    records = read_all(log, written)
    assert written.records == len(records) == 25_000
    assert all(record.partition == partition_for(record.key, 4) for record in records)
    assert log.admin.configs(written.topics[0], own=True)["retention.ms"] == "-1"
    log.close()


def test_what_must_come_out_is_that_of_the_records_in_the_topic():
    log = MemoryLog()
    written = write(log, WORKLOADS["count-sum"], Size(1_000, 10))
    counted: dict[bytes, list[int]] = {}
    for record in read_all(log, written):
        counted.setdefault(record.key, []).append(json.loads(record.value)["amount"])
    assert {key: json.loads(value) for key, value in written.right.last.items()} == {
        key: {"count": len(amounts), "sum": sum(amounts)} for key, amounts in counted.items()
    }
