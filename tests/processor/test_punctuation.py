"""The punctuation queue: when a punctuation is due, what it is told, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import TopologyError
from penstock.processor.punctuation import PunctuationQueue, PunctuationType

STREAM, WALL = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME


def fired(queue: PunctuationQueue, *times: int) -> list[tuple[str, int]]:
    calls: list[tuple[str, int]] = []

    def run(node: str, f: Any, timestamp: int) -> None:
        calls.append((node, timestamp))
        f(timestamp)

    for time in times:
        queue.punctuate(time, run)
    return calls


def ignore(timestamp: int) -> None:
    """Do nothing."""


def test_stream_time_is_first_due_with_the_first_record() -> None:
    queue = PunctuationQueue(STREAM)
    queue.schedule("n", 10, ignore, None, -1)
    assert fired(queue, 3, 9, 10, 15, 20) == [("n", 3), ("n", 10), ("n", 20)]


def test_wall_clock_is_first_due_one_interval_from_now() -> None:
    queue = PunctuationQueue(WALL)
    queue.schedule("n", 10, ignore, None, 100)
    assert fired(queue, 105, 110, 119, 120) == [("n", 110), ("n", 120)]


def test_missed_intervals_are_skipped_and_the_grid_is_kept() -> None:
    queue = PunctuationQueue(WALL)
    queue.schedule("n", 10, ignore, None, 0)
    assert fired(queue, 57, 59, 60) == [("n", 57), ("n", 60)]


def test_an_anchored_punctuation_waits_for_its_start() -> None:
    queue = PunctuationQueue(STREAM)
    queue.schedule("n", 10, ignore, 25, -1)
    assert fired(queue, 0, 24, 26, 34, 35) == [("n", 26), ("n", 35)]


def test_an_anchored_start_that_has_passed_moves_to_the_next_time_on_its_grid() -> None:
    queue = PunctuationQueue(WALL)
    queue.schedule("n", 10, ignore, 3, 40)
    assert queue.due == 43
    assert fired(queue, 42, 43) == [("n", 43)]


def test_an_anchored_start_of_now_is_due_now() -> None:
    queue = PunctuationQueue(WALL)
    queue.schedule("n", 10, ignore, 40, 40)
    assert fired(queue, 40) == [("n", 40)]


def test_a_cancelled_punctuation_is_not_called() -> None:
    queue = PunctuationQueue(WALL)
    punctuation = queue.schedule("n", 10, ignore, None, 0)
    punctuation.cancel()
    punctuation.cancel()
    assert fired(queue, 100) == []
    assert queue.due is None


def test_a_punctuation_may_cancel_itself() -> None:
    queue = PunctuationQueue(WALL)
    punctuation = queue.schedule("n", 10, lambda timestamp: punctuation.cancel(), None, 0)
    assert fired(queue, 10, 20, 30) == [("n", 10)]


def test_a_punctuation_may_cancel_another_that_is_due_at_the_same_time() -> None:
    queue = PunctuationQueue(WALL)
    queue.schedule("first", 10, lambda timestamp: second.cancel(), None, 0)
    second = queue.schedule("second", 10, ignore, None, 0)
    assert fired(queue, 10) == [("first", 10)]


def test_a_punctuation_may_schedule_another() -> None:
    queue = PunctuationQueue(STREAM)
    first = queue.schedule("first", 10, lambda timestamp: start_second(), None, -1)

    def start_second() -> None:
        queue.schedule("second", 5, ignore, None, 0)
        first.cancel()

    assert fired(queue, 0, 5) == [("first", 0), ("second", 0), ("second", 5)]


def test_punctuate_says_whether_anything_was_due() -> None:
    queue = PunctuationQueue(WALL)
    queue.schedule("n", 10, ignore, None, 0)
    assert [queue.punctuate(time, lambda node, f, now: f(now)) for time in (9, 10, 11)] == [False, True, False]


def test_due_is_the_next_time_or_none() -> None:
    queue = PunctuationQueue(WALL)
    assert queue.due is None
    queue.schedule("slow", 50, ignore, None, 0)
    queue.schedule("fast", 20, ignore, None, 0)
    assert queue.due == 20


@pytest.mark.parametrize(("every", "start"), [(0, None), (-5, None), (10, -1)])
def test_a_schedule_must_make_sense(every: int, start: int | None) -> None:
    with pytest.raises(TopologyError):
        PunctuationQueue(WALL).schedule("n", every, ignore, start, 0)
