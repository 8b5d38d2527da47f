"""Give the loop in C and its twin in Python the same messages: records, ends of the partition, errors that pass and errors that do not.

To be run as a program, with the loops and a stub of librdkafka, both built by the test: what is linked is linked for the whole process.
"""

from __future__ import annotations

import ctypes
import importlib.util
import random
import sys
from importlib.machinery import ExtensionFileLoader
from typing import Any

from confluent_kafka import KafkaError, Message

from penstock.errors import BrokerError
from penstock.log import partition_queue
from penstock.log.rows import records_of
from penstock.record import undecodable_name

PASSING = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError.NOT_LEADER_FOR_PARTITION)
FINAL = (KafkaError._AUTO_OFFSET_RESET, KafkaError.TOPIC_AUTHORIZATION_FAILED)
END = KafkaError._PARTITION_EOF


class StubClient:
    """A client that has messages and nothing else."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def poll(self, seconds: float) -> Message | None:
        return self._messages.pop(0) if self._messages else None

    def consume(self, most: int, seconds: float) -> list[Message]:
        taken, self._messages = self._messages[:most], self._messages[most:]
        return taken


def load(path: str) -> Any:
    loader = ExtensionFileLoader("_partition_queue", path)
    spec = importlib.util.spec_from_loader("_partition_queue", loader)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


def some(chosen: random.Random, size: int = 30) -> bytes | None:
    return chosen.choice([None, b"", chosen.randbytes(chosen.randrange(size)), b"plain"])


def messages_of(chosen: random.Random) -> list[tuple[Any, ...]]:
    """Return (error, offset, key, value, time, headers) of messages in the order of their offsets, with faults between them."""
    given, offset = [], chosen.randrange(5)
    for _ in range(chosen.randrange(1, 30)):
        kind = chosen.random()
        if kind < 0.6:
            named = [
                chosen.randbytes(chosen.randrange(4)).replace(b"\0", b"") for _ in range(chosen.choice([0, 0, 1, 3]))
            ]
            headers = [(name if chosen.random() < 0.2 else b"h", some(chosen, 9)) for name in named]
            given.append((0, offset, some(chosen), some(chosen), chosen.randrange(2**40), headers))
            offset += chosen.choice([1, 1, 1, 3])  # markers of transactions take an offset
        elif kind < 0.7:
            given.append((END, offset, None, None, 0, []))
        elif kind < 0.97:
            given.append((chosen.choice(PASSING), -1001, None, chosen.choice([b"why", b"\xff"]), 0, []))
        else:
            given.append((chosen.choice(FINAL), -1001, None, b"why", 0, []))
    return given


def outcome(take: Any, rounds: int) -> list[Any]:
    """Return what is read, and how it ends."""
    read: list[Any] = []
    for _ in range(rounds):
        try:
            reached, rows = take()
        except BrokerError as error:
            return [*read, error.code]
        read.append((reached, [] if rows is None else list(records_of(rows))))
    return read


def without_undecodable(read: list[Any]) -> list[Any]:
    """Leave out the headers of which the client in Python does not tell all."""
    return [
        entry
        if not isinstance(entry, tuple)
        else (entry[0], [r._replace(headers=()) if undecodable_name(r.headers) else r for r in entry[1]])
        for entry in read
    ]


def in_python(given: list[tuple[Any, ...]], end: int, most: int, rounds: int) -> list[Any]:
    messages = []
    for code, offset, key, value, time, headers in given:
        text = [(name.decode("utf-8", "surrogateescape"), data) for name, data in headers]
        bad = undecodable_name(tuple(text)) is not None
        told: list[Any] = [] if bad else text
        error = KafkaError(code) if code else None
        messages.append(
            Message(
                topic="t",
                partition=0,
                offset=offset,
                key=key,
                value=None if code else value,
                headers=told or None,
                error=error,
                timestamp=(1, time),
            )
        )
    queue = partition_queue.MessageQueue(StubClient(messages), "t", 0)  # type: ignore[arg-type]
    return outcome(lambda: queue.take(end, most), rounds)


def main(loops_path: str, stub_path: str) -> None:
    stub = ctypes.CDLL(stub_path)
    stub.stub_add.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p,
                              ctypes.c_size_t, ctypes.c_int64]  # fmt: skip
    stub.stub_header.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    stub.stub_alive.restype = ctypes.c_size_t
    loops = load(loops_path)
    loops.link_to(stub_path)
    client = StubClient([])
    stub.stub_client(ctypes.c_void_p(id(client)))
    assert ctypes.CDLL(loops_path).conf_init(ctypes.c_void_p(1), None, None, 0) == 0
    partition_queue.loops = loops
    queue = partition_queue.PartitionQueue(client, "t", 0)  # type: ignore[arg-type]
    gone_on = 0
    for seed in range(400):
        chosen = random.Random(seed)
        given, end, most = messages_of(chosen), chosen.randrange(1, 40), chosen.choice([1, 2, 7, 100])
        rounds = -(-len(given) // most)
        for code, offset, key, value, time, headers in given:
            stub.stub_add(code, offset, key, len(key or b""), value, len(value or b""), time)
            for name, data in headers:
                stub.stub_header(name, data, len(data or b""))
        by_column = outcome(lambda: queue.take(end, most), rounds)  # noqa: B023
        while stub.stub_alive():  # what comes behind an error that does not pass
            loops.take(queue._queue, end, most, 0)
        slowly = in_python(given, end, most, rounds)
        assert without_undecodable(by_column) == without_undecodable(slowly), (seed, given, by_column, slowly)
        for entry in by_column:
            if isinstance(entry, tuple):
                for record in entry[1]:
                    written = next(m for m in given if m[0] == 0 and m[1] == record.offset)
                    names = tuple((name.decode("utf-8", "surrogateescape"), data) for name, data in written[5])
                    assert record[3:] == (*written[2:5], names)
        passed = [at for at, m in enumerate(given) if m[0] in PASSING]
        gone_on += bool(passed) and given[-1][0] == 0
    assert gone_on > 20  # records behind an error that passes
    for wrong in (0, -1, 1 << 40):
        try:
            loops.take(queue._queue, 5, wrong, 0)
        except ValueError:
            continue
        raise AssertionError(wrong)


if __name__ == "__main__":
    main(*sys.argv[1:])
