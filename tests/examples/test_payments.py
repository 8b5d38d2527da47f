"""examples/payments.py: two accounts change together or not at all; each payment is made once, over aborted epochs, too."""

import json

import pytest
from examples.payments import topology

from penstock.engine.epoch import STEPS
from penstock.errors import BrokerError
from penstock.testing import TopologyTestDriver

ACCOUNTS = [f"account-{number}" for number in range(10)]
START = 1_700_000_000_000


@pytest.fixture
def driver():
    with TopologyTestDriver(topology(), lanes=4) as driver:
        driver.input_topic("deposits").pipe("ann", 100)
        yield driver


def pay(driver, number, payer, payee, cents):
    driver.input_topic("payments").pipe(number, {"payer": payer, "payee": payee, "cents": cents})
    return driver.output_topic("receipts").read().value


def balances(driver):
    return driver.output_topic("balances").read_table()


def test_a_payment_changes_both_accounts(driver):
    assert pay(driver, "p1", "ann", "ben", 60) == {"paid": True, "why": ""}
    assert balances(driver) == {"ann": 40, "ben": 60}


def test_a_payment_without_the_money_changes_none(driver):
    assert pay(driver, "p1", "ann", "ben", 101) == {"paid": False, "why": "not enough money"}
    assert balances(driver) == {"ann": 100}


@pytest.mark.parametrize(("payee", "cents"), [("ben", 0), ("ben", -5), ("ann", 5)])
def test_what_is_no_payment_is_refused(driver, payee, cents):
    assert pay(driver, "p1", "ann", payee, cents) == {"paid": False, "why": "not a payment"}
    assert balances(driver) == {"ann": 100}


def test_a_payment_that_is_sent_again_gets_its_receipt_and_moves_nothing(driver):
    first = pay(driver, "p1", "ann", "ben", 60)
    assert pay(driver, "p2", "ann", "ben", 60) == {"paid": False, "why": "not enough money"}
    driver.input_topic("deposits").pipe("ann", 1000)
    assert pay(driver, "p1", "ann", "ben", 60) == first
    assert pay(driver, "p2", "ann", "ben", 60) == {"paid": False, "why": "not enough money"}
    assert balances(driver) == {"ann": 1040, "ben": 60}


def payments(numbers):
    """Payments between all accounts, some too large; every fifth is sent twice."""
    for number in numbers:
        payer, payee = ACCOUNTS[number % 10], ACCOUNTS[(number * 7 + 3) % 10]
        row = f"p{number}", json.dumps({"payer": payer, "payee": payee, "cents": number % 13 * 10}), START + number
        yield from [row, row] if number % 5 == 0 else [row]


def test_on_spark_no_money_is_made_or_lost_though_every_step_of_a_commit_fails_once(start, cluster, topics):
    prefix = topics("deposits", "payments", "receipts", "balances")
    cluster.send(f"{prefix}deposits", *[(account, "100", START - 1) for account in ACCOUNTS])
    names, failed = STEPS[:-1], set()
    driven = start(topology(prefix))

    def fail_once(step, epoch):
        if epoch not in failed and step == names[epoch % len(names)]:
            failed.add(epoch)
            driven.engine._producer.flush()
            raise BrokerError(f"planted before {step!r}", retriable=True, abortable=True)

    driven.loop.observers.append(fail_once)
    driven.drain()
    for epoch in range(len(names)):
        cluster.send(f"{prefix}payments", *payments(range(20 * epoch, 20 * epoch + 20)))
        driven.drain()
    assert len(failed) >= len(names)

    expected, receipts = dict.fromkeys(ACCOUNTS, 100), {}
    for number, text, _ in payments(range(20 * len(names))):
        payment = json.loads(text)
        payer, payee, cents = payment.values()
        if number in receipts:
            continue
        receipts[number] = cents > 0 and payer != payee and expected[payer] >= cents
        if receipts[number]:
            expected[payer] -= cents
            expected[payee] += cents
    told = [(key, json.loads(value)["paid"]) for key, value in cluster.texts(f"{prefix}receipts")]
    assert told == [(number, receipts[number]) for number, *_ in payments(range(20 * len(names)))]
    kept = dict(driven.view("balances").all())
    assert kept == expected
    assert sum(kept.values()) == 100 * len(ACCOUNTS)
    assert {key: int(value) for key, value in cluster.texts(f"{prefix}balances")} == expected
