"""Records that a policy left out: counted by node and exception, the first of each described, bounded."""

from penstock.protocol.failed_records import MOST_EXAMPLES, MOST_GROUPS, OTHERS, FailureGroups
from penstock.protocol.report import TaskReport, decode_report, encode_report
from penstock.record import Origin


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as found:
        return found


def origin(offset: int) -> Origin:
    return Origin("orders", 1, offset, 1000 + offset, b"k", b"v", ())


def test_failures_are_counted_by_node_and_exception_with_examples_that_name_record_and_line():
    found = FailureGroups()
    for offset in range(MOST_EXAMPLES + 3):
        found.add("parse", "processing_error", "skip", origin(offset), raised(ValueError("bad price")), "f (shop.py:7)")
    found.add("parse", "processing_error", "skip", origin(99), raised(KeyError("id")))
    most, other = found.groups()
    assert (most.exception, most.count, len(most.examples)) == ("ValueError", MOST_EXAMPLES + 3, MOST_EXAMPLES)
    assert (other.exception, other.count) == ("KeyError", 1)
    first = most.examples[0]
    assert (first.record, first.timestamp, first.message) == ("orders-1@0", 1000, "bad price")
    assert first.function == "f (shop.py:7)"
    assert first.line.startswith(f"{__file__}:")


def test_they_travel_in_the_report_of_a_task_and_are_added_up():
    task, driver = FailureGroups(), FailureGroups()
    for epoch in range(3):
        for offset in range(MOST_EXAMPLES):
            task.add("parse", "processing_error", "dead_letter", origin(10 * epoch + offset), raised(ValueError("x")))
        report = decode_report(encode_report(TaskReport(0, 0, failures=task.take())))
        driver.merge(report.failures)
    assert len(task) == 0
    (group,) = driver.groups()
    assert group.count == 3 * MOST_EXAMPLES
    assert [each.record for each in group.examples] == [f"orders-1@{20 + n}" for n in range(MOST_EXAMPLES)]


def test_exceptions_of_ever_new_kinds_are_bounded():
    found = FailureGroups()
    for number in range(MOST_GROUPS + 50):
        found.add("parse", "processing_error", "skip", origin(number), type(f"Error{number}", (Exception,), {})("x"))
    assert len(found) == MOST_GROUPS + 1
    assert found.groups()[0].exception == OTHERS
    assert sum(group.count for group in found.groups()) == MOST_GROUPS + 50


def test_a_message_that_is_too_long_is_cut():
    found = FailureGroups()
    found.add("parse", "processing_error", "skip", origin(0), ValueError("x" * 10_000))
    assert len(found.groups()[0].examples[0].message) == 500
