"""Promise 9: what is read is of one committed barrier, while epochs run and processes are killed with kill -9.

Read by eight threads and over HTTP (`tests.query.bank` is the application). What is read is right if the sum over all
accounts is nought, if it has two legs for each record of its position, and if every row is as the changelog had it at
the epoch that it names. Workers are killed; in the long form the whole application, too, driver and all."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.query.bank import (
    ACCOUNTS,
    PARTITIONS,
    SHARDS,
    HttpAnswer,
    bank,
    read_key,
    read_lines,
    read_pages,
    transfer,
)

from penstock import KeyQuery, RangeQuery, Serdes
from penstock.clock import stopwatch_us
from penstock.dev.server import free_ports
from penstock.dev.watch import kill_session
from penstock.query.changes import StoreChanges

ROOT = Path(__file__).parents[2]
LONG = bool(os.environ.get("PENSTOCK_LONG"))
SECONDS, KILLS, READERS = (180.0, 40, 8) if LONG else (4.0, 1, 8)
HTTP_READERS = 2
#: a machine that is busy with other things has fewer in the time
EPOCHS, MOST_SECONDS = 15, 120 + SECONDS
#: transfers that are sent ahead of what is committed: a busy machine is not outrun
AHEAD = 20_000


class Model:
    """What each store has at each epoch, by the rows of its changelog."""

    def __init__(self, app: Any) -> None:
        self._now: dict[str, dict[str, int]] = {"balances": {}, "legs": {}, "ledger": {}}
        self.at: dict[int, dict[str, dict[str, int]]] = {0: {name: {} for name in self._now}}
        self._epoch = 0
        for store in self._now:
            app.changes.subscribe(store, self._take)
        app.barriers.subscribe(self._keep)

    def _take(self, changes: StoreChanges) -> None:
        for _, key, value, _ in changes:
            assert value is not None
            self._now[changes.store][key.decode()] = Serdes.int64.deserialize(value)

    def _keep(self, barrier: Any) -> None:
        self.at[barrier.epoch] = {name: dict(rows) for name, rows in self._now.items()}

    def of(self, epoch: int) -> dict[str, dict[str, int]]:
        """Return the stores at an epoch. A reader may be quicker than the loop, which tells listeners last."""
        while epoch not in self.at:
            threading.Event().wait(0.001)
        return self.at[epoch]


class Reader(threading.Thread):
    """Reads until it is told to stop; what was wrong is kept."""

    def __init__(self, app: Any, model: Model, stop: threading.Event, seed: int) -> None:
        super().__init__(daemon=True)
        self._app, self._model, self._until = app, model, stop
        self._draw = random.Random(seed)
        self.read = 0
        self.epochs: set[int] = set()
        self.wrong: BaseException | None = None

    def run(self) -> None:
        ways: list[Callable[[], int]] = [self._snapshot, self._snapshot, self._point, self._scan]
        try:
            while not self._until.is_set():
                self.epochs.add(self._draw.choice(ways)())
                self.read += 1
                self._until.wait(0.002)  # the loop is a thread of this process
        except BaseException as error:
            self.wrong = error

    def _snapshot(self) -> int:
        with self._app.snapshot() as snapshot:
            model = self._model.of(snapshot.epoch)
            balances = dict(snapshot.store("balances").all())
            legs = dict(snapshot.query("legs", RangeQuery()))
            transfers = snapshot.query("ledger", KeyQuery("transfers")).value or 0
            records = sum(offset + 1 for offset in snapshot.position.values())
            assert sum(balances.values()) == 0, snapshot.epoch
            assert sum(legs.values()) == 2 * transfers == 2 * records, snapshot.epoch
            assert {"balances": balances, "legs": legs} == {name: model[name] for name in ("balances", "legs")}
            return snapshot.epoch

    def _point(self) -> int:
        key = f"account-{self._draw.randrange(ACCOUNTS)}"
        found = self._app.query("balances", KeyQuery(key))
        assert found.value == self._model.of(found.epoch)["balances"].get(key), (key, found.epoch)
        return found.epoch

    def _scan(self) -> int:
        with self._app.query("legs", RangeQuery()) as found:
            assert dict(found) == self._model.of(found.epoch)["legs"], found.epoch
            return found.epoch


class HttpReader(Reader):
    """Reads over HTTP: lines, pages, and look-ups of a key."""

    def __init__(self, app: Any, model: Model, stop: threading.Event, seed: int) -> None:
        super().__init__(app, model, stop, seed)
        self._client = httpx.Client(base_url=f"http://{app.admin_address}", timeout=60)

    def _snapshot(self) -> int:
        found = read_lines(self._client, "balances")
        assert sum(found.rows.values()) == 0, found.epoch
        assert found.rows == self._model.of(found.epoch)["balances"], found.epoch
        return found.epoch

    def _point(self) -> int:
        for _ in range(20):
            key = f"account-{self._draw.randrange(ACCOUNTS)}"
            found = read_key(self._client, "balances", key)
            assert found.rows.get(key) == self._model.of(found.epoch)["balances"].get(key), (key, found.epoch)
        return found.epoch

    def _scan(self) -> int:
        found = read_pages(self._client, "legs")
        assert found.rows == self._model.of(found.epoch)["legs"], found.epoch
        assert sum(found.rows.values()) == 2 * found.records, found.epoch
        return found.epoch


def workers() -> list[int]:
    """Return the Python workers of Spark that are descendants of this process."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    mine, found = {os.getpid()}, []
    for _ in range(6):
        mine |= {pid for pid, parent in parents.items() if parent in mine}
    for pid in mine:
        try:
            if b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def kill_workers() -> None:
    for pid in workers():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_every_snapshot_is_whole_while_workers_are_killed(start, cluster):
    topic = cluster.topic("transfers", partitions=PARTITIONS)
    app = start.app(bank(topic), shards=SHARDS, inline_epoch_records=400, admin="0")
    model = Model(app)
    app.start().wait_until_running(120_000)
    cluster.send(topic, *((None, transfer(random.Random(at)), 1, at) for at in range(PARTITIONS)))
    app.barriers.wait({(topic, at): 0 for at in range(PARTITIONS)}, wait_ms=120_000)
    stop = threading.Event()
    readers = [Reader(app, model, stop, seed) for seed in range(READERS)]
    readers += [HttpReader(app, model, stop, READERS + seed) for seed in range(HTTP_READERS)]
    for reader in readers:
        reader.start()
    draw, sent, killed, killed_at, began = random.Random(7), [1] * PARTITIONS, 0, 0, stopwatch_us()
    try:
        while (spent := (stopwatch_us() - began) / 1e6) < SECONDS or (
            spent < MOST_SECONDS and (len(model.at) < EPOCHS or killed < KILLS)
        ):
            committed = sum(offset + 1 for offset in app.barriers.last.position.values())
            count = draw.choice((1, 20, 500)) if sum(sent) < committed + AHEAD else 0
            rows = [transfer(draw) for _ in range(count)]
            cluster.send(topic, *((None, row, 1, at % PARTITIONS) for at, row in enumerate(rows)))
            for partition in range(PARTITIONS):
                sent[partition] += len(rows[partition::PARTITIONS])
            # an epoch that fails again and again would end the application: each kill is after a barrier
            if killed < min(KILLS * spent / SECONDS - 0.3, KILLS) and app.barriers.last.epoch > killed_at:
                killed_at = app.barriers.last.epoch
                kill_workers()
                killed += 1
            assert app.error is None
            assert [reader.wrong for reader in readers if reader.wrong] == []
            stop.wait(0.03)
        end = {(topic, partition): count - 1 for partition, count in enumerate(sent)}
        with app.snapshot(at_least=end, wait_ms=60_000) as last:
            assert last.position == end
            balances = dict(last.store("balances").all())
    finally:
        stop.set()
        for reader in readers:
            reader.join(30)
    assert [reader.wrong for reader in readers if reader.wrong] == []
    epochs = set().union(*(reader.epochs for reader in readers))
    print(
        f"{sum(reader.read for reader in readers)} reads of {len(epochs)} epochs, {sum(sent)} transfers, {killed} kills"
    )
    assert killed > KILLS // 4, "as many as a busy machine lets"
    assert len(epochs) > 5
    assert all(reader.read for reader in readers)
    app.close()
    assert balances == changelog(cluster, f"{app.application_id}-balances-changelog")


def changelog(cluster: Any, topic: str) -> dict[str, int]:
    """Return the last value of each key, as any consumer reads it."""
    return {(key or b"").decode(): Serdes.int64.deserialize(value) for key, value, _, _ in cluster.rows(topic)}


class Client(threading.Thread):
    """Asks an application that is killed and started again. What it knows of an epoch stays true, whoever tells it."""

    def __init__(self, url: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._client, self._until = httpx.Client(base_url=url, timeout=30), stop
        self.seen: dict[tuple[str, int], dict[str, int]] = {}
        self.last = self.records = 0
        self.wrong: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._until.wait(0.01):
                for store in ("balances", "legs"):
                    for read in (read_lines, read_pages):
                        with contextlib.suppress(httpx.HTTPError):  # it was killed, or restores
                            self._check(store, read(self._client, store))
        except BaseException as error:
            self.wrong = error

    def _check(self, store: str, found: HttpAnswer) -> None:
        assert sum(found.rows.values()) == (0 if store == "balances" else 2 * found.records), (store, found.epoch)
        assert self.seen.setdefault((store, found.epoch), found.rows) == found.rows, (store, found.epoch)
        assert found.epoch >= self.last
        self.last, self.records = found.epoch, found.records


@pytest.mark.skipif(not LONG, reason="starts an application several times: PENSTOCK_LONG=1")
def test_what_http_clients_read_is_whole_while_the_application_is_killed(cluster, tmp_path):
    topic = cluster.topic("transfers", partitions=PARTITIONS)
    application = cluster.name("bank")
    (port,) = free_ports("127.0.0.1", 1)
    stop, draw, sent = threading.Event(), random.Random(5), 0
    clients = [Client(f"http://127.0.0.1:{port}", stop) for _ in range(4)]
    command = [sys.executable, "-m", "tests.query.bank", cluster.servers, application, topic]
    command += [str(tmp_path / "state"), str(port)]
    for client in clients:
        client.start()
    try:
        for life in range(4):
            with subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL) as process:
                began, reached = stopwatch_us(), max(client.last for client in clients)
                while (stopwatch_us() - began) / 1e6 < 120:
                    committed = max(client.records for client in clients)
                    count = draw.choice((1, 20, 300)) if sent < committed + AHEAD else 0
                    rows = [transfer(draw) for _ in range(count)]
                    cluster.send(topic, *((None, row, 1, (sent + at) % PARTITIONS) for at, row in enumerate(rows)))
                    sent += len(rows)
                    assert [client.wrong for client in clients if client.wrong] == []
                    if min(client.last for client in clients) > reached + 30:
                        break
                    stop.wait(0.03)
                assert process.poll() is None
                assert min(client.last for client in clients) > reached + 30, f"life {life}"
                kill_session(process.pid)
    finally:
        stop.set()
        for client in clients:
            client.join(60)
    assert [client.wrong for client in clients if client.wrong] == []
    whole = {}
    for client in clients:
        for place, rows in client.seen.items():
            assert whole.setdefault(place, rows) == rows, place
    last = max(epoch for store, epoch in whole if store == "balances")
    print(f"{sum(len(client.seen) for client in clients)} answers of {len(whole)} epochs and stores, {sent} transfers")
    logged = changelog(cluster, f"{application}-balances-changelog")
    assert sum(logged.values()) == 0
    assert whole["balances", last].keys() == logged.keys()
