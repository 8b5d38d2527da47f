"""The punctuation queue: when a punctuation is due, what it is told, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import TopologyError
from penstock.processor.punctuation import ONCE, PunctuationQueue, PunctuationType
from penstock.schedule import Interval

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


def test_a_resumed_queue_goes_on_where_the_other_stood() -> None:
    queue, again = PunctuationQueue(WALL), PunctuationQueue(WALL)
    for each in queue, again:
        each.schedule("a", 10, ignore, None, 0)
        each.schedule("b", 10, ignore, None, 0)
        each.schedule("a", 7, ignore, None, 0)
    fired(queue, 13)
    again.resume(queue.snapshot())
    assert queue.snapshot()["due"] == [["a", 1, 14], ["a", 0, 20], ["b", 0, 20]]
    assert fired(again, 14, 20, 21) == fired(queue, 14, 20, 21) == [("a", 14), ("a", 20), ("b", 20), ("a", 21)]


def test_what_was_cancelled_stays_cancelled_and_what_is_new_is_kept() -> None:
    queue, again = PunctuationQueue(STREAM), PunctuationQueue(STREAM)
    queue.schedule("a", 10, ignore, None, -1)
    queue.schedule("a", 10, ignore, None, -1).cancel()
    handles = [again.schedule("a", 10, ignore, None, -1) for _ in range(3)]
    again.schedule("new", 10, ignore, None, -1)
    again.resume(queue.snapshot())
    assert [handle.cancelled for handle in handles] == [False, True, False]
    assert fired(again, 5) == [("a", 5), ("a", 5), ("new", 5)]


def test_a_snapshot_says_when_the_next_is_due_timers_too() -> None:
    queue = PunctuationQueue(STREAM)
    assert queue.snapshot()["next"] is None
    queue.schedule("a", 10, ignore, 50, -1)
    queue.schedule("a", ONCE, ignore, 30, -1)
    assert queue.snapshot()["next"] == 30


def test_what_no_node_schedules_anew_is_gone() -> None:
    queue, again = PunctuationQueue(STREAM), PunctuationQueue(STREAM)
    queue.schedule("a", 10, ignore, None, -1)
    again.resume(queue.snapshot())
    assert again.due is None


def test_the_alarm_of_a_timer_is_not_part_of_a_snapshot_and_survives_resuming() -> None:
    queue, again = PunctuationQueue(STREAM), PunctuationQueue(STREAM)
    for each in queue, again:
        each.schedule("a", ONCE, ignore, 30, -1)
        each.schedule("a", 10, ignore, None, -1)
    assert queue.snapshot() == {"scheduled": {"a": 1}, "due": [["a", 0, 0]], "next": 0}
    again.resume(queue.snapshot())
    assert [due for due, _, _ in sorted(again.waiting, key=lambda entry: entry[:2])] == [0, 30]


def test_a_schedule_is_told_its_latest_time_and_is_due_at_the_next() -> None:
    queue = PunctuationQueue(WALL)
    handle = queue.schedule_at("a", Interval(10), ignore, 100)
    assert queue.due == 110
    assert fired(queue, 109, 110, 137) == [("a", 110), ("a", 130)]
    assert (handle.due, queue.due) == (120, 140)


def test_a_schedule_goes_on_where_it_stood_and_a_changed_one_with_its_first_time_from_there() -> None:
    queue = PunctuationQueue(WALL)
    queue.schedule_at("a", Interval(10), ignore, 100)
    for interval, due in (10, 110), (4, 112), (55, 110), (1000, 1000):
        again = PunctuationQueue(WALL)
        again.schedule_at("a", Interval(interval), ignore, 999)
        again.resume(queue.snapshot())
        assert again.due == due


def test_a_schedule_and_punctuations_of_a_node_are_told_apart() -> None:
    queue, again = PunctuationQueue(WALL), PunctuationQueue(WALL)
    for each, now in (queue, 0), (again, 500):
        each.schedule_at("a", Interval(10), ignore, now)
        each.schedule("a", 7, ignore, None, now)
    again.resume(queue.snapshot())
    assert fired(again, 7, 10) == [("a", 7), ("a", 10)]
