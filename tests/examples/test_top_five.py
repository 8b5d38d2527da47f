"""examples/top_five.py keeps the five largest of each industry, also when rows fall, move and go."""

import pytest
from examples.top_five import builder

from penstock.testing import TopologyTestDriver


@pytest.fixture
def driver():
    with TopologyTestDriver(builder) as driver:
        for number, symbol in enumerate("ABCDEF"):
            driver.input_topic("volumes").pipe(symbol, {"industry": "food", "shares": 10 * (number + 1)}, number)
        yield driver


def top(driver):
    return driver.output_topic("top-five").read_table()


def symbols(rows):
    return "".join(symbol for symbol, _ in rows)


def test_the_five_largest_come_first(driver):
    assert top(driver) == {"food": [["F", 60], ["E", 50], ["D", 40], ["C", 30], ["B", 20]]}


def test_a_share_that_falls_makes_room_for_the_sixth(driver):
    driver.input_topic("volumes").pipe("F", {"industry": "food", "shares": 1}, 10)
    assert symbols(top(driver)["food"]) == "EDCBA"


def test_a_share_that_changes_its_industry_is_in_one_of_them(driver):
    driver.input_topic("volumes").pipe("F", {"industry": "cars", "shares": 60}, 10)
    rows = top(driver)
    assert symbols(rows["food"]) == "EDCBA"
    assert rows["cars"] == [["F", 60]]


def test_a_share_that_is_deleted_is_subtracted(driver):
    driver.input_topic("volumes").pipe("E", None, 10)
    assert symbols(top(driver)["food"]) == "FDCBA"


def test_equal_volumes_are_ranked_by_name(driver):
    for symbol in "ZY":
        driver.input_topic("volumes").pipe(symbol, {"industry": "ties", "shares": 7}, 10)
    assert top(driver)["ties"] == [["Y", 7], ["Z", 7]]
