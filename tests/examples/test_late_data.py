"""examples/late_data.py: a window waits for its grace; what is too late, or cannot be read, is a dead letter."""

import pytest
from examples.late_data import reason, settings, topology

from penstock import Serdes
from penstock.testing import TopologyTestDriver


@pytest.fixture
def driver():
    with TopologyTestDriver(topology(), config=settings()) as driver:
        yield driver


def click(driver, *seconds, page="home"):
    for second in seconds:
        driver.input_topic("clicks").pipe(None, {"page": page}, second * 1000)


def counts(driver):
    return [(record.key, record.value) for record in driver.output_topic("clicks-by-minute").read_all()]


def dead(driver):
    return driver.output_topic("clicks.dead", value=Serdes.bytes).read_all()


def test_a_window_gives_out_one_count_when_its_grace_is_over(driver):
    click(driver, 5, 50, 89)
    assert counts(driver) == []
    click(driver, 90)  # the watermark is at 80
    assert counts(driver) == [("00:00 home", 2)]


def test_a_click_within_the_grace_counts(driver):
    click(driver, 5, 89, 59, 90)
    assert (counts(driver), dead(driver)) == ([("00:00 home", 2)], [])


def test_a_click_after_the_grace_is_a_dead_letter_with_its_window(driver):
    click(driver, 5, 95, 59)
    assert counts(driver) == [("00:00 home", 1)]
    (letter,) = dead(driver)
    assert (letter.timestamp, letter.value) == (59_000, b'{"page":"home"}')
    assert reason(letter) == "25 s after the end of [00:00, 01:00)"


def test_bytes_that_cannot_be_read_are_a_dead_letter_and_do_not_stop_the_others(driver):
    driver.pipe_raw("clicks", 0, None, b'{"page":', 1000)
    click(driver, 5, 90)
    assert counts(driver) == [("00:00 home", 1)]
    assert [letter.value for letter in dead(driver)] == [b'{"page":']
