"""The data of the benchmarks are the same in every run, and the totals are those of what is in the topic."""

import json
from collections import Counter

from bench.data import DataSet, purchases, write

from penstock.log.kafka import KafkaLog
from penstock.log.memory import MemoryLog
from penstock.log.partitioner import partition_for


def read_all(log, data):
    reader = log.reader()
    places = [(data.topic, partition) for partition in range(data.partitions)]
    return [r for place, end in log.admin.end_offsets(places).items() for r in reader.read(*place, 0, end)]


def test_the_same_data_set_gives_the_same_purchases():
    data = DataSet("p", records=50_001, keys=100)
    first, second = list(purchases(data)), list(purchases(data))
    assert first == second
    assert len(first) == 50_001
    assert first != list(purchases(DataSet("p", records=50_001, keys=100, seed=8)))


def test_values_are_json_of_a_usual_size_with_the_amount_that_is_counted():
    for key, amount, value in purchases(DataSet("p", records=1_000)):
        read = json.loads(value)
        assert (read["customer"].encode(), read["amount"]) == (key, amount)
        assert 60 <= len(value) <= 100


def test_the_totals_are_those_of_the_records_in_the_topic(kafka_broker):
    log = KafkaLog(kafka_broker.bootstrap_servers)
    data = DataSet("bench-data-totals", records=25_000, keys=300)
    written = write(log, data)
    records = read_all(log, data)
    counts, sums = Counter(), Counter()
    for record in records:
        counts[record.key] += 1
        sums[record.key] += json.loads(record.value)["amount"]
    assert written.totals == {key: (counts[key], sums[key]) for key in counts}
    assert sum(written.ends.values()) == len(records) == 25_000
    assert all(record.partition == partition_for(record.key, 4) for record in records)
    assert log.admin.configs(data.topic, own=True)["retention.ms"] == "-1"
    log.close()


def test_data_can_be_written_to_any_log():
    log = MemoryLog()
    assert sum(write(log, DataSet("p", records=10)).ends.values()) == 10
