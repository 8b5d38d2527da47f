"""How many records an epoch takes: as many as fit, and are done soon."""

import pytest

from penstock.engine.measure import COMMIT_US, FIRST_RECORDS, LEAST_RECORDS, MOST_US, Measure
from penstock.lane.orders import READING, Report

MB = 1 << 20


def report(records, *, size=100, us=1, level=0):
    return Report(level, 0, records=records, size=records * size, spent={"operators": records * us})


def test_the_first_epoch_is_small_since_nothing_is_known_of_its_records():
    assert Measure(10**6, MB, lanes=2).records == FIRST_RECORDS
    assert Measure(7, MB, lanes=2).records == 7


@pytest.mark.parametrize(
    ("size", "us", "records"),
    [
        (100, 1, 10**6),
        (1000, 1, 256 * MB // 1000),
        (100, 50, 2 * MOST_US // 50),
        (10**9, 1, 1),
        (100, 10**9, LEAST_RECORDS),
    ],
    ids=["small", "large", "slow", "huge", "stuck"],
)
def test_then_it_takes_what_fits_and_is_done_soon(size, us, records):
    measure = Measure(10**6, 256 * MB, lanes=2)
    measure.learn([report(500, size=size, us=us)])
    assert measure.records == records


def test_records_are_counted_where_they_come_in_and_work_wherever_it_is_done():
    measure = Measure(10**6, 256 * MB, lanes=1)
    measure.learn([report(1000, us=10), report(50_000, us=10, level=1)])
    assert measure.records == MOST_US // 510


def test_an_epoch_without_records_tells_nothing():
    measure = Measure(10**6, 256 * MB, lanes=1)
    measure.learn([report(0)])
    assert measure.records == FIRST_RECORDS


def test_what_is_asked_for_is_never_exceeded():
    measure = Measure(5, 256 * MB, lanes=1)
    measure.learn([report(3)])
    assert measure.records == 5


def test_bytes_are_those_that_were_read_not_those_that_came_to_a_lane():
    measure = Measure(10**6, 256 * MB, lanes=1)
    measure.learn([report(500, size=MB, level=READING), report(500, size=10)])
    assert measure.records == 256


def test_the_time_of_the_commit_counts_but_not_what_every_commit_takes():
    measure = Measure(10**6, 256 * MB, lanes=2)
    measure.learn([report(50_000, us=1)], commit_us=COMMIT_US)
    assert measure.records == 10**6
    measure.learn([report(50_000, us=1)], commit_us=20_000_000)
    assert 12_000 < measure.records < 12_600


def test_an_epoch_that_fails_is_halved_down_to_one_record():
    measure, taken = Measure(10**6, 256 * MB, lanes=1), []
    while measure.records > 1:
        taken.append(measure.records)
        measure.fail(measure.records)
    assert taken == [50_000 >> n for n in range(16) if 50_000 >> n > 1]
    measure.fail(1)
    assert measure.records == 1


def test_after_a_failure_epochs_grow_again_slowly_near_what_was_too_much():
    measure, taken = Measure(1000, 256 * MB, lanes=1), []
    measure.fail(1000)
    measure.fail(500)
    while measure.records < 1000:
        taken.append(measure.records)
        measure.learn([report(measure.records)])
    assert taken[:4] == [250, 265, 281, 298]
    assert len(taken) < 20


@pytest.mark.parametrize(("limit", "most"), [(7, 60), (1001, 30), (30_000, 30)])
def test_where_a_limit_stays_few_epochs_are_too_much(limit, most):
    measure, failed = Measure(10**6, 256 * MB, lanes=1), 0
    for _ in range(200):
        if measure.records > limit:
            failed += 1
            measure.fail(measure.records)
        else:
            measure.learn([report(measure.records)])
    assert failed < most


def test_epochs_that_take_less_than_they_may_tell_nothing_of_what_is_too_much():
    measure = Measure(1000, 256 * MB, lanes=1)
    measure.fail(1000)
    for _ in range(100):
        measure.learn([report(10)])
    assert measure.records == 500


def test_records_whose_size_was_seen_before_the_epoch_was_given_up_tell_how_many_fit():
    measure = Measure(10**6, 256 * MB, lanes=1)
    measure.fail(50_000, read=500, size=500 * MB)
    assert measure.records == 256
    measure.fail(256, read=10, size=10)
    assert measure.records == 128


def test_a_commit_takes_a_part_of_the_time_that_a_transaction_may_be_open():
    measure = Measure(10**6, 256 * MB, lanes=2, transaction_ms=3000)
    measure.learn([report(50_000, us=1)], commit_us=2_000_000 + COMMIT_US)
    assert measure.records == 25_000
