"""A changelog is cut where the store keeps nothing any more, and nowhere else."""

import logging

from hypothesis import given
from hypothesis import strategies as st

from penstock.clock import MockClock
from penstock.engine.changelog_expiry import EVERY_MS, ChangelogExpiry, Marks
from penstock.engine.committed_state import CommittedState
from penstock.log.base import TopicSpec
from penstock.log.memory import MemoryLog
from penstock.protocol.request import ShardRequest

#: rows of one epoch: how far each is behind or ahead of the time of the store
EPOCHS = st.lists(st.lists(st.integers(-30, 40), max_size=5), max_size=40)


@given(EPOCHS, st.integers(1, 12))
def test_no_row_that_is_kept_is_cut_and_one_that_is_not_does_not_stay_for_long(epochs, interval):
    marks, time, newest, rows = Marks(), 50, -1, []
    for steps in epochs:
        for step in steps:
            written = max(time + step, 0)
            if written >= (time - 20) // interval * interval:
                rows.append(written)
                newest = max(newest, written)
                time = max(time, written)
        kept = max(0, (time - 20) // interval * interval)
        gone = marks.see(newest, kept, len(rows))
        assert all(row < kept for row in rows[:gone])
    last = marks.see(newest, newest + 1, len(rows))
    assert last == 0 or all(row <= newest for row in rows[:last])


def test_time_that_goes_on_cuts_everything_that_was_written_before():
    marks = Marks()
    assert [marks.see(at, at - 20, at) for at in range(100, 200, 10)] == [0, 0, 0, 100, 110, 120, 130, 140, 150, 160]


def committed(**stores):
    """A barrier with one shard of each store: (newest, kept, end) by level."""
    snapshots, changelogs = {}, {}
    for store, levels in stores.items():
        for level, (newest, kept, end) in enumerate(levels):
            shot = snapshots.setdefault(level, {0: {"stores": {}}})[0]
            shot["stores"][store] = {"newest": newest, "kept": kept}
            changelogs[store] = [end]
    return CommittedState("app", "life", 1, (ShardRequest(),), changelogs=changelogs, snapshots=snapshots)


def changelog(log, store, rows):
    log.admin.ensure_topics([TopicSpec(f"app-{store}-changelog", 1)])
    producer = log.producer(None)
    producer.begin()
    producer.produce([(f"app-{store}-changelog", 0, b"k", b"v", 1, ())] * rows)
    producer.commit()
    return lambda: log.admin.earliest_offsets([(f"app-{store}-changelog", 0)])[f"app-{store}-changelog", 0]


def test_changelogs_are_cut_now_and_then_and_only_those_of_windowed_stores():
    log, clock = MemoryLog(), MockClock(1)
    begins, other = changelog(log, "windows", 50), changelog(log, "table", 50)
    expiry = ChangelogExpiry(log, "app", ["windows"], clock)
    expiry(committed(windows=[(100, 80, 10)], table=[(100, 80, 10)]))
    expiry(committed(windows=[(130, 110, 20)], table=[(130, 110, 20)]))
    assert (begins(), other()) == (10, 0)
    expiry(committed(windows=[(160, 140, 30)]))
    assert begins() == 10
    clock.advance(EVERY_MS)
    expiry(committed(windows=[(161, 140, 31)]))
    assert begins() == 20


def test_of_levels_that_share_a_store_the_slowest_counts():
    log = MemoryLog()
    begins = changelog(log, "windows", 50)
    expiry = ChangelogExpiry(log, "app", ["windows"], MockClock(1))
    expiry(committed(windows=[(100, 80, 10), (20, 0, 10)]))
    expiry(committed(windows=[(150, 130, 20), (20, 0, 20)]))
    assert begins() == 0
    expiry(committed(windows=[(150, 130, 20), (170, 120, 20)]))
    assert begins() == 10


def test_offsets_that_are_not_there_yet_are_not_asked_for(caplog):
    log, clock = MemoryLog(), MockClock(1)
    begins = changelog(log, "windows", 9)  # a barrier counts the marker of its transaction, which is not written yet
    expiry = ChangelogExpiry(log, "app", ["windows"], clock)
    expiry(committed(windows=[(100, 80, 10)]))
    with caplog.at_level(logging.WARNING, logger="penstock.engine"):
        expiry(committed(windows=[(130, 110, 20)]))
    assert (begins(), caplog.text) == (9, "")
    changelog(log, "windows", 1)
    clock.advance(EVERY_MS)
    expiry(committed(windows=[(130, 110, 20)]))
    assert begins() == 10


def test_a_cluster_that_refuses_is_told_of_and_asked_again(caplog):
    log, clock = MemoryLog(), MockClock(1)
    expiry = ChangelogExpiry(log, "app", ["windows"], clock)
    expiry(committed(windows=[(100, 80, 10)]))
    with caplog.at_level(logging.WARNING, logger="penstock.engine"):
        expiry(committed(windows=[(130, 110, 20)]))
    assert "longer than they need to be" in caplog.text
    begins = changelog(log, "windows", 10)
    clock.advance(EVERY_MS)
    expiry(committed(windows=[(130, 110, 20)]))
    assert begins() == 10
