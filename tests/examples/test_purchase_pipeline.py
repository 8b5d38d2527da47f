"""examples/purchase_pipeline.py: what is masked, what goes where, and what adds up."""

import logging

import pytest
from examples.purchase_pipeline import WATCHED, builder

from penstock.testing import TopologyTestDriver

CARD = "4929-8812-1234-5678"


@pytest.fixture
def driver():
    with TopologyTestDriver(builder) as driver:
        yield driver


def buy(driver, number, *, customer="ann", department="coffee", item="beans", cents=450, quantity=1, employee="7"):
    purchase = {
        "card": CARD, "customer": customer, "employee": employee, "department": department, "item": item,
        "postal_code": "89073", "quantity": quantity, "cents": cents, "time": 1000 + number,
    }  # fmt: skip
    driver.input_topic("purchases").pipe(f"p{number}", purchase, 1000 + number)


def test_no_topic_has_the_number_of_a_card(driver):
    buy(driver, 1, cents=900)
    buy(driver, 2, department="electronics", cents=900)
    outputs = driver.all_output()
    assert set(outputs) >= {"patterns", "rewards", "purchases-kept", "coffee", "electronics"}
    assert not [topic for topic, rows in outputs.items() if "4929" in repr(rows)]
    assert driver.output_topic("coffee").read_values()[0]["card"] == "xxxx-xxxx-xxxx-5678"


def test_a_pattern_says_what_and_where_but_not_who(driver):
    buy(driver, 1, quantity=2)
    assert driver.output_topic("patterns").read_values() == [{"item": "beans", "postal_code": "89073", "cents": 900}]


def test_points_of_a_customer_add_up_over_departments(driver):
    buy(driver, 1, cents=450)
    buy(driver, 2, cents=1000, department="electronics")
    buy(driver, 3, cents=250, customer="ben")
    found = [
        (record.key, record.value["points"], record.value["total"])
        for record in driver.output_topic("rewards").read_all()
    ]
    assert found == [("ann", 4, 4), ("ann", 10, 14), ("ben", 2, 2)]
    assert driver.store("points").get("ann") == 14


def test_each_department_has_its_topic_and_others_have_none(driver):
    for number, department in enumerate(("coffee", "electronics", "garden", "coffee")):
        buy(driver, number, department=department)
    assert [record.key for record in driver.output_topic("coffee").read_all()] == ["p0", "p3"]
    assert [record.key for record in driver.output_topic("electronics").read_all()] == ["p1"]


def test_large_purchases_are_kept_under_their_time(driver):
    buy(driver, 1, cents=500)
    buy(driver, 2, cents=501)
    assert [record.key for record in driver.output_topic("purchases-kept").read_all()] == ["1002"]


def test_what_a_watched_employee_sells_is_reported_masked(driver, caplog):
    with caplog.at_level(logging.WARNING, "enquiry"):
        buy(driver, 1)
        buy(driver, 2, employee=WATCHED)
    assert caplog.messages == [f"employee {WATCHED} has sold beans to ann"]
