"""What is kept of the changes of a store: by epoch, bounded, and complete after ``start``."""

import pyarrow as pa
import pytest

from penstock.admin import change_ring
from penstock.admin.change_ring import ChangeRing
from penstock.query.barriers import Barrier
from penstock.query.changes import StoreChanges


def changes(epoch: int, *keys: bytes) -> StoreChanges:
    columns = {"partition": [0] * len(keys), "key": keys, "value": keys, "timestamp": [epoch] * len(keys)}
    return StoreChanges("counts", Barrier(epoch, {}), pa.table(columns))


def epochs_after(ring: ChangeRing, epoch: int) -> list[int]:
    found = []
    while (each := ring.after(epoch)) is not None:
        epoch = each.barrier.epoch
        found.append(epoch)
    return found


@pytest.fixture
def ring() -> ChangeRing:
    made = ChangeRing("counts")
    made.begin(10)
    return made


def test_changes_of_an_epoch_before_it_began_are_not_kept(ring):
    ring.add(changes(10, b"a"))
    ring.reach(Barrier(10, {}))
    assert epochs_after(ring, 0) == []


def test_changes_are_shown_once_their_barrier_is_published(ring):
    ring.add(changes(11, b"a"))
    ring.add(changes(11, b"b"))
    assert epochs_after(ring, 10) == []
    ring.reach(Barrier(11, {}))
    assert epochs_after(ring, 10) == [11]
    assert [row.key for part in ring.after(10).parts for row in part] == [b"a", b"b"]


def test_epochs_without_changes_are_passed_over(ring):
    for epoch in (11, 14):
        ring.add(changes(epoch, b"a"))
    ring.reach(Barrier(15, {}))
    assert epochs_after(ring, 10) == [11, 14]
    assert epochs_after(ring, 12) == [14]
    assert epochs_after(ring, 14) == []


@pytest.mark.parametrize(("limit", "most"), [("MOST_EPOCHS", 3), ("MOST_BYTES", 3 * changes(1, b"a").size)])
def test_the_oldest_go_first_and_the_start_says_so(ring, monkeypatch, limit, most):
    monkeypatch.setattr(change_ring, limit, most)
    for epoch in range(11, 21):
        ring.add(changes(epoch, b"a"))
        ring.reach(Barrier(epoch, {}))
    assert ring.start == 17
    assert epochs_after(ring, 17) == [18, 19, 20]
    assert ring.size == 3 * changes(1, b"a").size


def test_an_epoch_that_is_too_large_for_the_ring_is_not_kept_at_all(ring, monkeypatch):
    monkeypatch.setattr(change_ring, "MOST_BYTES", 10)
    ring.add(changes(11, *(b"%d" % n for n in range(100))))
    ring.add(changes(11, b"more"))
    ring.reach(Barrier(11, {}))
    assert ring.start == 11
    assert epochs_after(ring, 11) == []
    assert ring.size == 0
