"""map_values_async in the engine: real Kafka, Spark and LMDB; calls of lanes, epochs that are run again, what fails."""

import asyncio
import os
import threading
from zlib import crc32

import pytest

from penstock import ProcessingError, Serdes, Stores, StreamsBuilder, TimeWindows
from penstock.engine.epoch import STEPS
from penstock.errors import BrokerError

START = 1_600_000_020_000
TEXT = {"key": Serdes.string, "value": Serdes.string}
KEYS = [f"key-{number}" for number in range(12)]


def append(key, value, total):
    return f"{total},{value}"[-80:]


async def asked(key, value):
    """Answers after a time that has nothing to do with the order of the records."""
    await asyncio.sleep(crc32(f"{key}{value}".encode()) % 7 / 1000)
    return f"{value}!"


def blocked(value):
    threading.Event().wait(crc32(value.encode()) % 5 / 1000)
    return f"{value}?"


def everything(lines, rows, out, joined, windows):
    """Calls where the records are read, and in the lanes; state, a join, a re-key and windows behind them."""
    builder = StreamsBuilder()
    table = builder.table(rows, **TEXT, store=Stores.key_value("rows", cached=False))
    answers = builder.stream(lines, **TEXT).map_values_async(asked, with_key=True, concurrency=5, name="ask")
    answers.left_join(table, lambda value, row: f"{value}/{row}").to(joined, **TEXT)
    grouped = answers.group_by_key(**TEXT)
    totals = grouped.aggregate(str, append, store=Stores.key_value("totals", cached=False))
    totals.to_stream().map_values_async(blocked, concurrency=5, name="block").to(out, **TEXT)
    moved = answers.group_by(lambda key, value: value[:2], **TEXT).windowed_by(TimeWindows(1000))
    store = Stores.window("windows", 86_400_000, 1000, cached=False)
    moved.count(store=store).to_stream().to(windows, key=Serdes.windowed(Serdes.string, 1000), value=Serdes.int64)
    return builder


ONE_EACH = (("out", 1), ("joined", 1), ("windows", 1))


def script(count, first=0):
    """Rows (key, value, timestamp, partition): a key is always in one partition, times go up."""
    return [
        (KEYS[n % 12], f"v{n % 5}-{n}", START + 10 * n, crc32(KEYS[n % 12].encode()) % 2)
        for n in range(first, first + count)
    ]


def test_the_engine_commits_what_the_driver_says(start, cluster, twin, by_key):
    topics = [cluster.topic(word, partitions) for word, partitions in (("lines", 2), ("rows", 2), *ONE_EACH)]
    lines, rows, *outputs = topics
    builder = everything(*topics)
    driven, driver = start(builder), twin(builder, partitions=2)
    for part in range(2):
        changes = [(key, f"row {part}", START + 600 * part, crc32(key.encode()) % 2) for key in KEYS]
        records = script(60, first=60 * part)
        for sent in (cluster, driver):
            sent.send(rows, *changes)
            sent.send(lines, *records)
        driven.drain()
        driver.driver.commit()
    for topic in outputs:
        found, expected = by_key(cluster.rows(topic)), by_key(driver.rows(topic))
        assert found == expected, topic
        assert sum(map(len, found.values())) == 120
    assert dict(driven.view("totals").all()) == dict(driver.driver.store("totals").all())


def test_an_epoch_that_is_aborted_calls_again_and_shows_each_answer_once(start, cluster, by_key):
    """Every step of the commit fails once, with the rows already in the log."""
    lines, out = cluster.topic("lines", 2), cluster.topic("out")
    builder = StreamsBuilder()
    answers = builder.stream(lines, **TEXT).map_values_async(asked, with_key=True, concurrency=4)
    totals = answers.group_by_key(**TEXT).aggregate(str, append, store=Stores.key_value("totals", cached=False))
    totals.to_stream().to(out, **TEXT)
    names, failed = STEPS[:-1], set()
    driven = start(builder)

    def fail_once(step, epoch):
        if epoch not in failed and step == names[epoch % len(names)]:
            failed.add(epoch)
            driven.engine._producer.flush()
            raise BrokerError(f"planted before {step!r}", retriable=True, abortable=True)

    driven.loop.observers.append(fail_once)
    expected: dict[bytes, list[str]] = {}
    for epoch in range(len(names)):
        records = script(24, first=24 * epoch)
        cluster.send(lines, *records)
        driven.drain()
        for key, value, *_ in records:
            updates = expected.setdefault(key.encode(), [])
            updates.append(append(key, f"{value}!", updates[-1] if updates else ""))
    assert len(failed) >= len(names) - 1
    found = {key: [row[0].decode() for row in rows] for key, rows in by_key(cluster.rows(out)).items()}
    assert found == expected


def test_a_call_that_fails_ends_the_application_with_the_users_line(start, cluster):
    lines, out = cluster.topic("lines", 1), cluster.topic("out")

    async def divide(value):
        await asyncio.sleep(0)
        return str(1 / len(value))  # the line

    builder = StreamsBuilder()
    builder.stream(lines, **TEXT).map_values_async(divide, name="divide", retries=1, backoff=1).to(out, **TEXT)
    cluster.send(lines, ("a", "x", START), ("b", "", START + 1), ("c", "y", START + 2))
    with pytest.raises(ProcessingError) as caught:
        start(builder).drain()
    text = str(caught.value)
    assert caught.value.node == "divide"
    assert "ZeroDivisionError" in text
    assert f"{lines}-0@1" in text
    assert (
        f"test_async.py:{divide.__code__.co_firstlineno}), raised at line {divide.__code__.co_firstlineno + 2}" in text
    )
    assert "return str(1 / len(value))  # the line" in caught.value.remote_traceback
    assert "Py4J" not in text
    assert cluster.read(out) == []


class Client:
    """What a function may keep: made in the worker when it is first called, not where the program is written."""

    def __init__(self):
        self.made_in = None
        self.calls = 0

    async def __call__(self, value):
        if self.made_in is None:
            self.made_in = (os.getpid(), id(asyncio.get_running_loop()))
        assert self.made_in == (os.getpid(), id(asyncio.get_running_loop()))
        self.calls += 1
        return f"{self.made_in[0]}.{self.calls}"


def test_what_a_function_keeps_is_there_in_the_next_epoch(start, cluster):
    lines, out = cluster.topic("lines", 1), cluster.topic("out")
    builder = StreamsBuilder()
    client = Client()
    builder.stream(lines, **TEXT).map_values_async(client).to(out, **TEXT)
    driven = start(builder, lanes=1)
    for number in range(4):
        cluster.send(lines, *(("k", "v", START + number) for _ in range(3)))
        driven.drain()
    calls: dict[str, list[int]] = {}
    for _, told in cluster.texts(out):
        process, call = told.split(".")
        calls.setdefault(process, []).append(int(call))
    assert client.calls == 0
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in calls.values())
    assert max(map(len, calls.values())) > 3  # a worker was given a second epoch
