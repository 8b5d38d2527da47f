"""examples/enrichment.py asks a real HTTP service, on this machine."""

import pytest
from examples.enrichment import service, settings, topology

from penstock import ProcessingError
from penstock.testing import TopologyTestDriver


def priced(url, *products, config=None):
    with TopologyTestDriver(topology(url), config=settings() if config is None else config) as driver:
        for product in products:
            driver.input_topic("orders").pipe("o", {"product": product, "quantity": 2})
        answers = [(value["product"], value["cents"]) for value in driver.output_topic("priced-orders").read_values()]
        dead = driver.output_topic("orders.dead").read_values()
    return answers, [order["product"] for order in dead]


def test_answers_leave_in_the_order_of_the_records():
    prices = {f"product-{number}": number for number in range(20)}
    with service(prices, fails={"product-3": 2}) as (url, asked):
        answers, dead = priced(url, *prices)
    assert answers == [(product, 2 * cents) for product, cents in prices.items()]
    assert (asked["product-3"], asked["product-4"], dead) == (3, 1, [])


def test_a_product_that_the_service_does_not_know_has_no_price():
    with service({}, fails={}) as (url, asked):
        assert priced(url, "dodo") == ([("dodo", None)], [])
    assert asked["dodo"] == 1


def test_what_the_service_cannot_answer_is_a_dead_letter_and_the_others_go_on():
    with service({"apple": 5}, fails={"anvil": 99}) as (url, _):
        assert priced(url, "anvil", "apple") == ([("apple", 10)], ["anvil"])


def test_a_service_that_is_away_ends_the_application_if_the_policy_is_to_fail():
    with service({}, fails={}) as (url, _):
        pass
    with pytest.raises(ProcessingError, match=r"node: +with-price"):
        priced(url, "apple", config={"on_processing_error": "fail"})
