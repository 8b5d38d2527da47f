"""Readers of every bad kind beside a running application: its memory is bounded, its files do not grow without end, it goes on.

One that stalls in the middle of a scan, in this process and over HTTP, a thousand open snapshots, scans of the whole store, a key of a
megabyte, clients that send garbage. The long form (PENSTOCK_LONG=1): 5,000,000 rows, and a reader that stalls for ten minutes."""

from __future__ import annotations

import json
import os
import random
import socket
import threading
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from penstock import KeyQuery, RangeQuery, Serdes, SnapshotClosed, StreamsBuilder
from penstock.admin import connection
from penstock.clock import stopwatch_us
from penstock.log.base import RowColumns

LONG = bool(os.environ.get("PENSTOCK_LONG"))
ROWS, STALL_MS = (5_000_000, 600_000) if LONG else (60_000, 3_000)
SNAPSHOTS, SHARDS, START, HOT = 1_000, 8, 1_600_000_000_000, "hot"
#: of what a reader may cost this process, which is the driver's
MOST_MB = 400
LARGE = "k" * 990_000  # a record has at most a megabyte, by default


def counting(topic: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream(topic, key=Serdes.string, value=Serdes.bytes).group_by_key().count(store="counts")
    return builder


def memory_mb() -> float:
    """Return this process' own memory, without the pages of files that it has mapped."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def file_bytes(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("data.mdb"))


class Beside(threading.Thread):
    """Does something again and again; what went wrong is kept."""

    def __init__(self, stop: threading.Event, pause: float) -> None:
        super().__init__(daemon=True)
        self._until, self._pause = stop, pause
        self.times = 0
        self.wrong: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._until.wait(self._pause):
                self.once()
                self.times += 1
        except BaseException as error:
            self.wrong = error

    def once(self) -> None:
        raise NotImplementedError


class Feeder(Beside):
    """Adds records: the key that all of partition 0 has, and others in partition 1."""

    def __init__(self, cluster: Any, topic: str, stop: threading.Event) -> None:
        super().__init__(stop, 0.02)
        self._cluster, self._topic, self._draw = cluster, topic, random.Random(3)
        #: sent with the next ones: a producer belongs to one thread
        self.more: list[Any] = []

    def once(self) -> None:
        others = [(f"key-{self._draw.randrange(ROWS)}", "1", START, 1) for _ in range(100)]
        more, self.more = self.more, []
        self._cluster.send(self._topic, (HOT, "1", START, 0), *others, *more)


class Garbage(Beside):
    """Sends bytes that are no requests, and goes without reading, or leaves half a request behind."""

    def __init__(self, place: tuple[str, int], stop: threading.Event) -> None:
        super().__init__(stop, 0.01)
        self._place, self._draw = place, random.Random(4)

    def once(self) -> None:
        sent = self._draw.choice(
            [
                self._draw.randbytes(self._draw.randrange(1, 100_000)),
                b"GET /v1/stores/counts/keys/" + self._draw.randbytes(40) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                b"GET /v1/stores/counts/keys/hot HTTP/1.1\r\nHo",
                b"POST /v1/stores/counts/keys HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\n{",
            ]
        )
        try:
            with socket.create_connection(self._place, timeout=20) as line:
                line.sendall(sent)
        except OSError:  # it was disconnected
            return


class Watch(Beside):
    """Looks at the memory of this process."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__(stop, 0.1)
        self.most = 0.0

    def once(self) -> None:
        self.most = max(self.most, memory_mb())


def fill(cluster: Any, topic: str) -> None:
    """Write a record of every key to partition 1."""
    producer = cluster.log.producer(None)
    producer.init()
    for begin in range(0, ROWS, 500_000):
        some = np.arange(begin, min(begin + 500_000, ROWS))
        keys = pa.array([b"key-%d" % number for number in some.tolist()], pa.binary())
        values = pa.array([b"1"] * len(some), pa.binary())
        producer.begin()
        producer.produce_columns(RowColumns(topic, np.full(len(some), 1, np.int32), keys, values, START + some, None))
        producer.commit()
    producer.close()


@pytest.fixture
def served(start, cluster, monkeypatch):
    """An application that has all rows, and gets more."""
    monkeypatch.setattr(connection, "LOOK_SECONDS", 1.0)
    topic = cluster.topic("numbers", partitions=2)
    fill(cluster, topic)
    app = start.app(counting(topic), shards=SHARDS, admin="0", snapshot_timeout_ms=3_600_000, commit_interval_ms=20)
    app.start().wait_until_running(120_000)
    app.barriers.wait({(topic, 1): ROWS - 1}, wait_ms=600_000)
    return app, topic


def records(position: Any) -> int:
    return sum(offset + 1 for offset in position.values())


def test_the_engine_goes_on_beside_readers_of_every_bad_kind(served, cluster, start, caplog):
    app, topic = served
    host, port = app.admin_address.rsplit(":", 1)
    stop = threading.Event()
    feeder, garbage, watch = Feeder(cluster, topic, stop), Garbage((host, int(port)), stop), Watch(stop)
    before = memory_mb()
    for each in (feeder, garbage, watch):
        each.start()
    try:
        with stalled_client(host, int(port)):
            stalled, began = app.snapshot(timeout=STALL_MS // 2), stopwatch_us()
            scan = stalled.query("counts", RangeQuery())
            next(scan)
            goes_on(app)
            a_thousand_snapshots(app, topic)
            goes_on(app)
            scans_of_everything(app)
            a_large_key(app, feeder)
            while (stopwatch_us() - began) / 1000 < STALL_MS:
                goes_on(app)
                stop.wait(0.2)
            with pytest.raises(SnapshotClosed, match="time"):
                list(scan)
        sizes = [file_bytes(start.folder) for _ in range(10) if goes_on(app, 20)]
        assert sizes[-1] == sizes[0], "what was closed is used again"
        assert app._engine.queries.open_views() <= SHARDS
    finally:
        stop.set()
        for each in (feeder, garbage, watch):
            each.join(60)
    assert [each.wrong for each in (feeder, garbage, watch)] == [None] * 3
    assert garbage.times > 50
    assert app.error is None
    assert [each for each in caplog.records if each.name.startswith("penstock.admin")] == []
    grown = watch.most - before
    print(
        f"{ROWS} rows: memory {before:.0f} MB, {grown:.0f} more at most; files {sizes[-1] >> 20} MB; {garbage.times} garbage"
    )
    assert grown < MOST_MB
    app.close()


def goes_on(app: Any, epochs: int = 3) -> bool:
    """Wait for barriers: there is always a next one."""
    app.barriers.wait(epoch=app.barriers.last.epoch + epochs, wait_ms=60_000)
    return True


def stalled_client(host: str, port: int) -> socket.socket:
    """Return a connection that has asked for all rows and reads none."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect((host, port))
    line.sendall(b"GET /v1/stores/counts/range HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n\r\n")
    return line


def a_thousand_snapshots(app: Any, topic: str) -> None:
    """Each is of the barrier that it names, and stays there."""
    held = []
    for number in range(SNAPSHOTS):
        held.append(app.snapshot())
        if number % 20 == 0:
            goes_on(app, 1)
    assert len({snapshot.epoch for snapshot in held}) >= SNAPSHOTS // 20
    for snapshot in held:
        hot = snapshot.query("counts", KeyQuery(HOT)).value or 0
        assert hot == snapshot.position.get((topic, 0), -1) + 1
        snapshot.close()


def scans_of_everything(app: Any) -> None:
    """In this process and over HTTP: what is counted is what the position says."""
    with app.query("counts", RangeQuery()) as found:
        assert sum(value for _, value in found) == records(found.position)
    address = f"http://{app.admin_address}/v1/stores/counts/range"
    total, number = 0, count()
    with httpx.stream("GET", address, headers={"Accept": "application/x-ndjson"}, timeout=120) as answer:
        lines = answer.iter_lines()
        head = json.loads(next(lines))
        for row in map(json.loads, lines):
            if "end" in row:
                break
            next(number)
            total += row["value"]
    assert row == {"end": True, "rows": next(number)}
    assert total == sum(offset + 1 for offsets in head["position"].values() for offset in offsets.values())


def a_large_key(app: Any, feeder: Feeder) -> None:
    feeder.more = [(LARGE, "1", START, 1)]
    until = stopwatch_us() + 60_000_000
    while app.query("counts", KeyQuery(LARGE)).value != 1:
        goes_on(app, 1)
        assert stopwatch_us() < until
    answer = httpx.post(f"http://{app.admin_address}/v1/stores/counts/keys", json={"key": LARGE}, timeout=60)
    assert answer.json()["value"] == 1
