"""How many records an epoch takes: as many as fit, and are done soon."""

import pytest

from penstock.engine.epoch_sizer import COMMIT_US, FIRST_RECORDS, LEAST_RECORDS, MOST_US, EpochSizer
from penstock.protocol.report import READING, TaskReport

MB = 1 << 20


def report(records, *, size=100, us=1, level=0):
    return TaskReport(level, 0, records=records, size=records * size, spent={"operators": records * us})


def test_the_first_epoch_is_small_since_nothing_is_known_of_its_records():
    assert EpochSizer(10**6, MB, lanes=2).records == FIRST_RECORDS
    assert EpochSizer(7, MB, lanes=2).records == 7


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
    sizer = EpochSizer(10**6, 256 * MB, lanes=2)
    sizer.learn([report(500, size=size, us=us)])
    assert sizer.records == records


def test_records_are_counted_where_they_come_in_and_work_wherever_it_is_done():
    sizer = EpochSizer(10**6, 256 * MB, lanes=1)
    sizer.learn([report(1000, us=10), report(50_000, us=10, level=1)])
    assert sizer.records == MOST_US // 510


def test_an_epoch_without_records_tells_nothing():
    sizer = EpochSizer(10**6, 256 * MB, lanes=1)
    sizer.learn([report(0)])
    assert sizer.records == FIRST_RECORDS


def test_what_is_asked_for_is_never_exceeded():
    sizer = EpochSizer(5, 256 * MB, lanes=1)
    sizer.learn([report(3)])
    assert sizer.records == 5


def test_bytes_are_those_that_were_read_not_those_that_came_to_a_lane():
    sizer = EpochSizer(10**6, 256 * MB, lanes=1)
    sizer.learn([report(500, size=MB, level=READING), report(500, size=10)])
    assert sizer.records == 256


def test_the_time_of_the_commit_counts_but_not_what_every_commit_takes():
    sizer = EpochSizer(10**6, 256 * MB, lanes=2)
    sizer.learn([report(50_000, us=1)], commit_us=COMMIT_US)
    assert sizer.records == 10**6
    sizer.learn([report(50_000, us=1)], commit_us=20_000_000)
    assert 12_000 < sizer.records < 12_600


def test_an_epoch_that_fails_is_halved_down_to_one_record():
    sizer, taken = EpochSizer(10**6, 256 * MB, lanes=1), []
    while sizer.records > 1:
        taken.append(sizer.records)
        sizer.fail(sizer.records)
    assert taken == [50_000 >> n for n in range(16) if 50_000 >> n > 1]
    sizer.fail(1)
    assert sizer.records == 1


def test_after_a_failure_epochs_grow_again_slowly_near_what_was_too_much():
    sizer, taken = EpochSizer(1000, 256 * MB, lanes=1), []
    sizer.fail(1000)
    sizer.fail(500)
    while sizer.records < 1000:
        taken.append(sizer.records)
        sizer.learn([report(sizer.records)])
    assert taken[:4] == [250, 265, 281, 298]
    assert len(taken) < 20


def test_epochs_that_take_less_than_they_may_tell_nothing_of_what_is_too_much():
    sizer = EpochSizer(1000, 256 * MB, lanes=1)
    sizer.fail(1000)
    for _ in range(100):
        sizer.learn([report(10)])
    assert sizer.records == 500


def test_records_whose_size_was_seen_before_the_epoch_was_given_up_tell_how_many_fit():
    sizer = EpochSizer(10**6, 256 * MB, lanes=1)
    sizer.fail(50_000, read=500, size=500 * MB)
    assert sizer.records == 256
    sizer.fail(256, read=10, size=10)
    assert sizer.records == 128


def test_a_commit_takes_a_part_of_the_time_that_a_transaction_may_be_open():
    sizer = EpochSizer(10**6, 256 * MB, lanes=2, transaction_ms=3000)
    sizer.learn([report(50_000, us=1)], commit_us=2_000_000 + COMMIT_US)
    assert sizer.records == 25_000


@pytest.mark.parametrize(("limit", "most"), [(7, 60), (1001, 30), (30_000, 30)])
def test_where_a_limit_stays_few_epochs_are_too_much(limit, most):
    sizer, failed = EpochSizer(10**6, 256 * MB, lanes=1), 0
    for _ in range(200):
        if sizer.records > limit:
            failed += 1
            sizer.fail(sizer.records)
        else:
            sizer.learn([report(sizer.records)])
    assert failed < most
