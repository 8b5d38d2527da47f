"""Pages of a scan: in order, once more if the answer was lost, and the snapshot is given back at the end, whatever the end is."""

import json

import pytest

from penstock.admin import cursors
from penstock.admin.answers import HttpError
from penstock.admin.cursors import PagedScans, Scan


class Barrier:
    """What a scan is of, and whether it was given back."""

    epoch, position, closed = 7, {("in", 0): 41}, False

    def close(self):
        self.closed = True


def scan(rows, form=lambda row: {"n": row}):
    barrier = Barrier()
    return barrier, Scan(barrier, rows, form)


def page(data):
    found = json.loads(data)
    return [row["n"] for row in found["rows"]], found["cursor"]


@pytest.fixture
def scans():
    return PagedScans()


def refused(scans, token, asked="all", limit=2):
    with pytest.raises(HttpError) as raised:
        scans.next(token, asked, limit)
    return raised.value.status


def test_pages_follow_each_other_and_the_last_gives_the_snapshot_back(scans):
    barrier, rows = scan(range(5))
    first = scans.first(rows, "all", 2)
    assert json.loads(first).keys() == {"epoch", "position", "cursor", "rows"}
    assert page(first)[0] == [0, 1]
    second, third = scans.next(page(first)[1], "all", 2), None
    assert page(second)[0] == [2, 3]
    assert not barrier.closed
    third = scans.next(page(second)[1], "all", 2)
    assert page(third) == ([4], None)
    assert barrier.closed


def test_a_page_may_be_asked_for_once_more_and_an_earlier_one_is_gone(scans):
    _, rows = scan(range(6))
    first = page(scans.first(rows, "all", 2))[1]
    second = scans.next(first, "all", 2)
    assert scans.next(first, "all", 2) == second
    last = scans.next(page(second)[1], "all", 2)
    assert scans.next(page(second)[1], "all", 2) == last
    assert refused(scans, first) == 410


def test_a_cursor_goes_on_with_its_own_request_only(scans):
    _, rows = scan(range(6))
    token = page(scans.first(rows, "all", 2))[1]
    assert refused(scans, token, "others") == 400
    assert refused(scans, "nonsense") == refused(scans, "nobody.1") == 410
    assert page(scans.next(token, "all", 2))[0] == [2, 3]


def test_a_cursor_past_its_time_has_given_its_snapshot_back(scans, monkeypatch):
    monkeypatch.setattr(cursors, "CURSOR_MS", 0)
    barrier, rows = scan(range(6))
    token = page(scans.first(rows, "all", 2))[1]
    assert refused(scans, token) == 410
    assert barrier.closed


def test_a_page_ends_with_the_row_that_makes_it_large(scans, monkeypatch):
    monkeypatch.setattr(cursors, "PAGE_BYTES", 10)
    _, rows = scan(["x" * 20, "y", "z"])
    assert page(scans.first(rows, "all", 100))[0] == ["x" * 20]


def test_a_row_that_cannot_be_shown_ends_the_scan(scans):
    barrier, rows = scan(range(3), form=lambda row: {"n": 1 // (row - 1)})
    with pytest.raises(ZeroDivisionError):
        scans.first(rows, "all", 2)
    assert barrier.closed


def test_there_is_room_for_so_many_and_those_at_their_ends_make_some(scans, monkeypatch):
    monkeypatch.setattr(cursors, "MOST_CURSORS", 1)
    _, rows = scan(range(3))
    token = page(scans.first(rows, "all", 2))[1]
    with pytest.raises(HttpError, match="1 cursors already"):
        scans.make_room()
    scans.next(token, "all", 2)
    scans.make_room()


def test_the_end_of_the_server_gives_all_back(scans):
    barrier, rows = scan(range(6))
    scans.first(rows, "all", 2)
    scans.close()
    assert barrier.closed
