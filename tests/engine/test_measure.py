"""How many records an epoch takes: as many as fit, and are done soon."""

import pytest

from penstock.engine.measure import FIRST_RECORDS, LEAST_RECORDS, MOST_US, Measure
from penstock.lane.orders import Report

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
        (10**9, 1, LEAST_RECORDS),
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
    measure.learn([report(3, size=10**9)])
    assert measure.records == 5
