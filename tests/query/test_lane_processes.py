"""A lane in another process applies epochs and is killed with kill -9, and eight threads read: no snapshot is torn.

And what readers hold is bounded: a thousand snapshots, each of a barrier of its own, a reader that stalls, a value of
1 MB."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from base64 import b64encode
from pathlib import Path

import pytest
from tests.query.accounts import SHARDS, Accounts

from penstock import KeyQuery, RangeQuery
from penstock.clock import stopwatch_us
from penstock.protocol.request import encode_request

ROOT = Path(__file__).parents[2]
LONG = bool(os.environ.get("PENSTOCK_LONG"))
SECONDS, KILLS = (60.0, 20) if LONG else (2.0, 2)


class Lane:
    """A process that applies; after a kill another one takes its place, and is told of the last barrier."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seed = 0
        self._start()

    def _start(self) -> None:
        self._seed += 1
        command = [sys.executable, "-m", "tests.query.lane_program", str(self._folder), str(self._seed)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, accounts: Accounts) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b64encode(encode_request(accounts.request())).decode() + "\n")
        self._process.stdin.flush()

    def wait(self, epoch: int) -> None:
        """Wait until all shards are at a barrier: the next epoch is not run before."""
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline()) != f"{epoch}\n":
            assert line, "the lane has ended"

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self.close()
        self._start()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def lane(tmp_path):
    made = Lane(tmp_path)
    yield made
    made.close()


@pytest.fixture
def accounts(tmp_path, lane):
    made = Accounts(tmp_path, own_lane=False)
    lane.tell(made)
    lane.wait(0)
    yield made
    made.close()


def transfer(draw, size=40):
    moves = []
    for _ in range(size):
        (first, one), (second, two) = ((draw.randrange(SHARDS), draw.randrange(50)) for _ in range(2))
        moves += [("disk", first, f"d{first}-{one}", -7), ("memory", second, f"m{second}-{two}", 7)]
    return moves


def read(accounts, stop, wrong, counts):
    try:
        while not stop.is_set():
            with accounts.queries.snapshot() as snapshot:
                accounts.check(snapshot)
                stores = [dict(snapshot.query(name, RangeQuery())) for name in ("disk", "memory")]
                assert sum(value for rows in stores for value in rows.values()) == 0
            counts.append(snapshot.epoch)
            stop.wait(0.001)
    except BaseException as error:
        wrong.append(error)


def test_no_snapshot_is_torn_while_a_lane_applies_and_is_killed(accounts, lane):
    stop, wrong, counts = threading.Event(), [], []
    readers = [threading.Thread(target=read, args=(accounts, stop, wrong, counts)) for _ in range(8)]
    for reader in readers:
        reader.start()
    draw, killed, began = random.Random(3), 0, stopwatch_us()
    try:
        while (spent := (stopwatch_us() - began) / 1e6) < SECONDS or killed < KILLS:
            accounts.move(transfer(draw))
            accounts.publish()
            lane.tell(accounts)
            if killed < KILLS and spent > SECONDS * (killed + 0.5) / KILLS:
                lane.kill()
                killed += 1
                lane.tell(accounts)
            lane.wait(accounts.epoch)
            assert wrong == []
    finally:
        stop.set()
        for reader in readers:
            reader.join(30)
    assert wrong == []
    print(f"{len(counts)} snapshots of {len(set(counts))} of {accounts.epoch} epochs, {killed} kills")
    assert len(set(counts)) > 10


def file_bytes(accounts):
    return sum(path.stat().st_size for path in accounts.home.folder.glob("shard-*/data.mdb"))


def memory_kb():
    """Return this process' own memory, without the pages of files that it has mapped."""
    return next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith("RssAnon"))


def epochs(accounts, lane, count, seed=1):
    draw = random.Random(seed)
    for _ in range(count):
        accounts.move(transfer(draw, 10))
        accounts.publish()
        lane.tell(accounts)
        lane.wait(accounts.epoch)


def test_a_thousand_snapshots_of_different_barriers_are_right_and_give_back_what_they_hold(accounts, lane):
    count = 1000 if LONG else 300
    epochs(accounts, lane, 20)
    before = memory_kb()
    held = []
    for number in range(count):
        held.append(accounts.queries.snapshot())
        epochs(accounts, lane, 1, number)
    grown = memory_kb() - before
    for snapshot in held[:: count // 20]:
        accounts.check(snapshot)
    size = file_bytes(accounts)
    print(f"{count} snapshots: {grown} KB of memory, {accounts.queries.open_views()} views, files of {size >> 10} KB")
    assert grown < 100 * count, "so many KB for each, of eight transactions and what the test keeps"
    for snapshot in held:
        snapshot.close()
    epochs(accounts, lane, count)
    assert accounts.queries.open_views() <= SHARDS
    assert file_bytes(accounts) == size, "the space of what is closed is used again"


def test_a_reader_that_stalls_does_not_let_the_files_grow_without_end(accounts, lane):
    epochs(accounts, lane, 30)
    stalled = accounts.queries.snapshot(timeout=20)
    scan = stalled.query("disk", RangeQuery())
    next(scan)
    threading.Event().wait(0.03)
    epochs(accounts, lane, 30)
    size = file_bytes(accounts)
    epochs(accounts, lane, 200)
    assert file_bytes(accounts) == size
    assert accounts.queries.open_views() <= SHARDS


def test_a_key_of_one_megabyte(accounts, lane):
    key = "k" * (1 << 20)
    accounts.move([("disk", accounts.queries.metadata_for_key("disk", key).shard, key, 5)])
    accounts.publish()
    assert accounts.queries.query("disk", KeyQuery(key)).value == 5, "pending"
    lane.tell(accounts)
    lane.wait(accounts.epoch)
    epochs(accounts, lane, 1)
    assert accounts.queries.query("disk", KeyQuery(key)).value == 5, "applied"
    assert list(accounts.queries.query("disk", RangeQuery("k"))) == [(key, 5)]


def test_a_shard_with_more_maps_than_there_is_room_for_is_opened_with_more(accounts, lane):
    accounts.queries._views._source._most_maps = 1
    epochs(accounts, lane, 3)
    with accounts.queries.snapshot() as snapshot:
        accounts.check(snapshot)
