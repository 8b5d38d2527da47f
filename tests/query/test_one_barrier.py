"""A snapshot is of one barrier, whichever shards have applied it; and it holds what it sees, and no more."""

from __future__ import annotations

import gc
import threading
from datetime import timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.query.accounts import SHARDS, Accounts

from penstock import KeyQuery, NotAvailable, RangeQuery, SnapshotClosed
from penstock.errors import BadKey
from penstock.query.barriers import Barrier

shards = st.integers(0, SHARDS - 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("move"), shards, shards),
        st.tuples(st.just("apply"), shards, shards),
        st.tuples(st.just("publish"), shards, shards),
        st.tuples(st.just("snapshot"), shards, shards),
        st.tuples(st.just("close"), shards, shards),
        st.tuples(st.just("point"), shards, shards),
    ),
    max_size=30,
)


@pytest.fixture
def accounts(tmp_path):
    made = Accounts(tmp_path)
    yield made
    made.close()


def moved(epoch, source, target):
    account = f"{epoch % 7}"
    return [
        ("disk", source, f"d{source}-{account}", -5),
        ("disk", target, f"d{target}-{account}", 3),
        ("memory", target, f"m{target}-{account}", 2),
    ]


@settings(max_examples=60)
@given(steps)
def test_every_snapshot_is_of_its_barrier_whatever_was_applied(tmp_path_factory, steps):
    accounts = Accounts(tmp_path_factory.mktemp("state"))
    open_ones = []
    for step, first, second in steps:
        if step == "move":
            accounts.move(moved(accounts.epoch, first, second))
            accounts.publish()
        elif step == "apply":
            accounts.apply(first)
        elif step == "publish":
            accounts.publish()
        elif step == "snapshot":
            open_ones.append(accounts.queries.snapshot())
        elif step == "close" and open_ones:
            open_ones.pop(first % len(open_ones)).close()
        elif step == "point":
            found = list(accounts.queries.query("disk", RangeQuery(f"d{first}")))
            model = accounts.models[accounts.epoch]["disk"]
            assert found == sorted((key, value) for key, value in model.items() if key >= f"d{first}")
        for snapshot in open_ones:
            accounts.check(snapshot)
    for snapshot in open_ones:
        snapshot.close()
    accounts.close()


def test_a_shard_that_is_at_the_next_barrier_already_is_read_there(accounts):
    """The commit is done and applied, but the driver has not published it yet: the reader waits for that."""
    accounts.move(moved(0, 0, 1))
    accounts.publish()
    accounts.apply(0)
    accounts.apply(1)
    accounts.move(moved(1, 0, 1))
    accounts.apply(0)
    timer = threading.Timer(0.1, accounts.publish)
    timer.start()
    with accounts.queries.snapshot() as snapshot:
        assert snapshot.epoch == 2
        accounts.check(snapshot)
    timer.join()


def test_point_reads_open_one_shard_and_share_it(accounts):
    accounts.move(moved(0, 0, 1))
    accounts.publish()
    assert accounts.queries.open_views() == 0
    shard = accounts.queries.metadata_for_key("disk", "somebody").shard
    for _ in range(3):
        assert accounts.queries.query("disk", KeyQuery("somebody")).value is None
    assert accounts.queries.open_views() == 1
    accounts.move(moved(1, shard, shard))
    accounts.publish()
    assert accounts.queries.open_views() == 0, "what nobody reads is closed at the barrier"


def test_a_thousand_snapshots_of_one_barrier_are_one_view_a_shard(accounts):
    accounts.move(moved(0, 0, 1))
    accounts.publish()
    held = [accounts.queries.snapshot() for _ in range(1000)]
    assert accounts.queries.open_views() == SHARDS
    for snapshot in held:
        snapshot.close()
    accounts.move(moved(1, 0, 1))
    accounts.publish()
    assert accounts.queries.open_views() == 2, "shards that were not written to may be read again"


def test_the_views_of_a_scan_that_is_forgotten_are_given_back(accounts):
    accounts.move([("disk", shard, f"k{shard}-{n}", n) for shard in range(SHARDS) for n in range(300)])
    accounts.publish()
    rows = accounts.queries.query("disk", RangeQuery())
    list(islice(rows, 5))
    for shard in range(SHARDS):
        accounts.apply(shard)
    accounts.move(moved(1, 0, 1))
    accounts.publish()
    assert accounts.queries.open_views() == SHARDS
    del rows
    gc.collect()
    accounts.publish()
    assert accounts.queries.open_views() == 2


def test_a_reader_that_stalls_is_ended_at_a_barrier_after_its_time(accounts):
    accounts.move([("disk", 0, f"k{n}", n) for n in range(1000)])
    accounts.publish()
    accounts.apply(0)
    snapshot = accounts.queries.snapshot(timeout=1)
    scan = snapshot.query("disk", RangeQuery())
    next(scan)
    threading.Event().wait(0.01)
    accounts.move(moved(1, 0, 1))
    accounts.publish()
    with pytest.raises(SnapshotClosed, match="its time of 1 ms is over"):
        next(scan)
    with pytest.raises(SnapshotClosed, match="longer timeout="):
        snapshot.store("disk").get("k1")
    assert accounts.queries.open_views() == 2
    snapshot.close()


def test_after_the_end_nothing_is_read(accounts):
    accounts.move(moved(0, 0, 1))
    accounts.publish()
    snapshot = accounts.queries.snapshot()
    accounts.queries.close()
    with pytest.raises(SnapshotClosed, match="the application has ended"):
        snapshot.store("disk").get("d0-0")
    with pytest.raises(NotAvailable):
        accounts.queries.query("disk", KeyQuery("d0-0"))
    with pytest.raises(NotAvailable):
        accounts.queries.snapshot()


def test_waiting_ends_with_the_application(accounts):
    heard = []

    def wait():
        try:
            accounts.queries.query("disk", KeyQuery("a"), at_least={("in", 0): 99}, wait_ms=60_000)
        except Exception as error:
            heard.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    accounts.queries.close()
    thread.join(10)
    assert type(heard[0]).__name__ == "NotUpToBound"


def test_a_listener_that_fails_does_not_hold_up_the_others(accounts, caplog):
    heard = []

    def fail(barrier):
        raise ValueError("planted")

    with accounts.barriers.subscribe(fail), accounts.barriers.subscribe(heard.append):
        accounts.move(moved(0, 0, 1))
        accounts.publish()
    assert heard == [Barrier(1, {("in", 0): 1})]
    assert "planted" in caplog.text


def test_an_environment_that_was_made_anew_is_opened_again(accounts):
    accounts.move(moved(0, 0, 1))
    accounts.publish()
    accounts.apply(0)
    accounts.apply(1)
    held = accounts.queries.snapshot()
    accounts.home.close()
    with pytest.raises(SnapshotClosed, match="its folder was made anew or the application ends"):
        held.store("disk").all().__next__()
    with accounts.queries.snapshot() as again:
        accounts.check(again)
    held.close()


def test_times_are_durations_as_everywhere(accounts):
    accounts.move(moved(0, 0, 1))
    accounts.publish()
    wait, timeout = timedelta(milliseconds=5), timedelta(minutes=1)
    with accounts.queries.snapshot(at_least={("in", 0): 1}, wait_ms=wait, timeout=timeout) as snapshot:
        accounts.check(snapshot)


def test_a_query_at_once_that_is_refused_is_counted_once_it_goes_the_ordinary_way(accounts):
    queries, refused = accounts.queries, KeyQuery(17)  # keys are text
    for ask in (queries.query_at_once, queries.query):
        assert queries.meter.counts == {}
        with pytest.raises(BadKey):
            ask("disk", refused)
    assert queries.meter.counts == {("disk", "KeyQuery", "BadKey"): 1}
    assert queries.query_at_once("disk", KeyQuery("d1-1")).found is False
    assert queries.meter.counts["disk", "KeyQuery", "answered"] == 1
