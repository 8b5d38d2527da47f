"""Promise 9: what is read is of one committed barrier, while epochs run and workers are killed with kill -9.

Each transfer takes an amount from one account and gives it to another, which is in another shard as a rule; legs are
counted in a second store, in memory, and all transfers in a shared one. A snapshot is right if the sum over all
accounts is nought, if it has two legs for each record of its position, and if every row is as the changelog had it at
the epoch that it names."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import KeyQuery, RangeQuery, Serdes, Stores, StreamsBuilder
from penstock.clock import stopwatch_us
from penstock.query.changes import StoreChanges

LONG = bool(os.environ.get("PENSTOCK_LONG"))
SECONDS, KILLS, READERS = (180.0, 40, 8) if LONG else (4.0, 1, 8)
ACCOUNTS, PARTITIONS = 60, 2
NUMBERS = {"key": Serdes.string, "value": Serdes.int64}


class Ledger:
    """Counts all transfers, and keeps the greatest."""

    def init(self, context: Any) -> None:
        self.store = context.store("ledger")

    def process(self, record: Any) -> None:
        self.store.put("transfers", (self.store.get("transfers") or 0) + 1)
        self.store.put("greatest", max(self.store.get("greatest") or 0, record.value["amount"]))

    def close(self) -> None:
        pass


def bank(topic: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    transfers = builder.stream(topic, value=Serdes.json)
    legs = transfers.flat_map(
        lambda _, t: [(t["from"], -t["amount"]), (t["to"], t["amount"])],
    )
    by_account = legs.group_by_key(**NUMBERS)
    by_account.reduce(lambda a, b: a + b, store=Stores.key_value("balances", **NUMBERS))
    by_account.count(store=Stores.key_value("legs", persistent=False, **NUMBERS))
    builder.add_state_store(Stores.shared("ledger", **NUMBERS))
    transfers.process(Ledger, stores=["ledger"])
    return builder


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
    app = start.app(bank(topic), shards=8, inline_epoch_records=400)
    model = Model(app)
    app.start().wait_until_running(120_000)
    cluster.send(topic, *((None, transfer(random.Random(at)), 1, at) for at in range(PARTITIONS)))
    app.barriers.wait({(topic, at): 0 for at in range(PARTITIONS)}, wait_ms=120_000)
    stop = threading.Event()
    readers = [Reader(app, model, stop, seed) for seed in range(READERS)]
    for reader in readers:
        reader.start()
    draw, sent, killed, began = random.Random(7), [1] * PARTITIONS, 0, stopwatch_us()
    try:
        while (spent := (stopwatch_us() - began) / 1e6) < SECONDS:
            rows = [transfer(draw) for _ in range(draw.choice((1, 20, 500)))]
            cluster.send(topic, *((None, row, 1, at % PARTITIONS) for at, row in enumerate(rows)))
            for partition in range(PARTITIONS):
                sent[partition] += len(rows[partition::PARTITIONS])
            if killed < KILLS * spent / SECONDS - 0.3:
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
    assert killed == KILLS
    assert len(epochs) > 5
    app.close()
    assert balances == changelog(cluster, f"{app.application_id}-balances-changelog")


def transfer(draw: random.Random) -> str:
    first, second = draw.sample(range(ACCOUNTS), 2)
    return f'{{"from": "account-{first}", "to": "account-{second}", "amount": {draw.randrange(1, 1000)}}}'


def changelog(cluster: Any, topic: str) -> dict[str, int]:
    """Return the last value of each key, as any consumer reads it."""
    return {(key or b"").decode(): Serdes.int64.deserialize(value) for key, value, _, _ in cluster.rows(topic)}
