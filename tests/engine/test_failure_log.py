"""A line for each record that was left out, as long as there are few."""

import logging
from collections import Counter

import pytest

from penstock.clock import MockClock
from penstock.engine.failure_log import SPAN_MS, FailureLog
from penstock.engine.work import Work
from penstock.protocol.failed_records import FailedRecord, FailureGroup
from penstock.protocol.report import TaskReport


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.WARNING, "penstock.records")
    return lambda: [record.getMessage() for record in caplog.records]


def group(count, first=0):
    examples = [
        FailedRecord("no price", f"orders-1@{n}", 5, "f", "shop.py:7") for n in range(first, first + min(count, 5))
    ]
    return FailureGroup("parse", "processing_error", "ValueError", "skip", count, examples)


def test_a_record_has_a_line_with_its_error_and_the_users_line(told, caplog):
    FailureLog(MockClock(0)).failed([group(1, 7)])
    assert told() == ["record orders-1@7 skipped at node parse: ValueError: no price (shop.py:7)"]
    record = caplog.records[0]
    assert (record.topic, record.partition, record.offset) == ("orders", 1, 7)
    assert (record.node, record.error, record.line, record.function) == ("parse", "ValueError", "shop.py:7", "f")


def test_lines_of_one_kind_are_bounded_and_what_has_none_is_counted(told):
    clock = MockClock(0)
    log = FailureLog(clock)
    log.failed([group(1000)])
    log.failed([group(3)])
    assert len(told()) == 6
    assert told()[-1].startswith("995 more at node parse: processing_error, ValueError")
    clock.advance(SPAN_MS)
    log.failed([group(1, 50)])
    assert told()[6] == "record orders-1@50 skipped at node parse: ValueError: no price (shop.py:7)"
    assert told()[7].startswith("3 more"), "of the span before"


def test_records_that_are_dropped_without_an_error_are_counted_in_a_line(told):
    log = FailureLog(MockClock(0))
    log.dropped(Counter({("window", "late"): 4}))
    log.dropped(Counter({("window", "late"): 2}))
    log.dropped(Counter({("window", "late"): 2}))
    assert told()[0] == "4 dropped at node window: late"
    assert told()[1].startswith("2 more at node window: late")
    assert len(told()) == 2


def test_a_record_at_which_something_failed_is_not_told_as_dropped_too(told):
    """A report counts it as dropped, as all records that leave; what was dropped beside it has its line."""
    report = TaskReport(0, 0, failures=[group(2)], dropped=[("parse", "processing_error", 2), ("window", "late", 4)])
    FailureLog(MockClock(0)).committed(Work(None, None, None, [], {}, {}, {}, reports=[report]))
    assert [line.partition(":")[0] for line in told()] == [
        "record orders-1@0 skipped at node parse",
        "record orders-1@1 skipped at node parse",
        "4 dropped at node window",
    ]
