"""A first start is one: where something was done before, an application does not begin anew in silence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock import StreamsBuilder
from penstock.engine.committed_state import CommittedState
from penstock.engine.fingerprint import canonical_topology, fingerprint
from penstock.engine.record import pack, rows_of
from penstock.engine.recovery import learn
from penstock.engine.topics import ensure_own
from penstock.errors import RecoveryError
from penstock.log.base import TopicSpec
from penstock.log.memory import MemoryLog
from penstock.protocol.request import ShardRequest

CHANGELOG = "shop-counts-changelog"


def counting(**options):
    builder = StreamsBuilder()
    builder.stream("orders", **options).group_by_key().count(store="counts")
    return builder.build()


def copying():
    builder = StreamsBuilder()
    builder.stream("orders").to("copies")
    return builder.build()


@pytest.fixture
def log():
    made = MemoryLog()
    made.admin.ensure_topics([TopicSpec("orders", 1), TopicSpec("copies", 1)])
    return made


def started(log, topology=None):
    return learn(log, topology or counting(), "shop", shards=2, lanes=1, allow_change=False)


def run_epoch(log, *, rows=3, commit=True):
    """Write what an epoch writes: rows of the changelog, the record, offsets."""
    topology = counting()
    ensure_own(log, topology, "shop", 2, 1)
    committed = replace(
        CommittedState("shop", "life", 1, (ShardRequest(), ShardRequest())),
        epoch=1,
        changelogs={"counts": [rows + 1, 0]},
    )
    record = committed.record(
        "1.a", fingerprint=fingerprint(topology), topology=pack(canonical_topology(topology)), committed_at=1
    )
    producer = log.producer("shop")
    producer.init()
    producer.begin()
    producer.produce([(CHANGELOG, 0, b"k", b"v", 1, ())] * rows)
    producer.produce(rows_of(record, 1))
    producer.send_offsets("shop", {("orders", 0): 3})
    producer.commit() if commit else producer.abort()


def test_a_first_start_is_one(log):
    assert started(log).epoch == 0
    ensure_own(log, counting(), "shop", 2, 1)
    assert started(log).epoch == 0


def test_a_first_epoch_that_was_aborted_is_followed_by_a_first_start(log):
    run_epoch(log, commit=False)
    assert started(log).epoch == 0


def test_a_start_after_an_epoch_goes_on_from_it(log):
    run_epoch(log)
    assert started(log).epoch == 1


@pytest.mark.parametrize("anew", [False, True], ids=["missing", "made anew"])
def test_without_the_record_of_its_epochs_an_application_that_has_run_is_refused(log, anew):
    run_epoch(log)
    log.admin.delete_topics(["shop-epochs"])
    if anew:
        ensure_own(log, counting(), "shop", 2, 1)
    with pytest.raises(
        RecoveryError, match=r"'shop-epochs' has no record.*shop-counts-changelog has rows.*Restore.*penstock reset"
    ):
        started(log)


def test_offsets_of_the_group_alone_tell_that_it_has_run(log):
    run_epoch(log)
    log.admin.delete_topics(["shop-epochs", CHANGELOG])
    with pytest.raises(RecoveryError, match=r"its group 'shop' has offsets.*penstock reset"):
        started(log)
    log.admin.delete_group("shop")
    assert started(log).epoch == 0


def test_offsets_that_somebody_has_set_are_where_a_source_begins_that_asks_for_them(log):
    run_epoch(log)
    log.admin.delete_topics(["shop-epochs", CHANGELOG])
    assert started(log, counting(offset_reset="none")).epoch == 0


def test_an_application_without_stores_has_nothing_to_lose(log):
    run_epoch(log)
    log.admin.delete_topics(["shop-epochs", CHANGELOG])
    assert started(log, copying()).epoch == 0


def test_a_changelog_that_is_missing_is_refused(log):
    run_epoch(log)
    log.admin.delete_topics([CHANGELOG])
    with pytest.raises(RecoveryError, match=r"'shop-counts-changelog' does not exist: .*Restore.*penstock reset"):
        started(log)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_changelog_with_fewer_rows_than_the_record_says_is_refused(log, rows):
    run_epoch(log)
    log.admin.delete_topics([CHANGELOG])
    ensure_own(log, counting(), "shop", 2, 1)
    producer = log.producer(None)
    producer.produce([(CHANGELOG, 0, b"k", b"v", 1, ())] * rows)
    with pytest.raises(
        RecoveryError, match=rf"shop-counts-changelog-0 ends at offset {rows}, but at epoch 1 at 4: .*penstock reset"
    ):
        started(log)


def test_a_marker_that_is_not_written_yet_is_no_missing_row(log):
    run_epoch(log)
    log.admin.delete_topics([CHANGELOG])
    ensure_own(log, counting(), "shop", 2, 1)
    producer = log.producer(None)
    producer.produce([(CHANGELOG, 0, b"k", b"v", 1, ())] * 3)
    assert started(log).epoch == 1
