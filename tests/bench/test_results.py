"""Wrong results are found: what is lost, doubled, wrong or too much; and said with an example."""

import pytest
from bench.results import Collected, ResultsDiffer, check, collected, committed
from bench.workloads.base import Compare

from penstock.log.base import TopicSpec
from penstock.log.memory import MemoryLog

RIGHT = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", None)]


def compare(found, kind):
    log = MemoryLog()
    log.admin.ensure_topics([TopicSpec("out", 2)])
    log.producer(None).produce([("out", ord(key) % 2, key, value, 0, ()) for key, value in found])
    right = Collected(kind).add(RIGHT)
    check(collected(log, "out", 2, kind), right, committed(log, "out", 2), RIGHT)


@pytest.mark.parametrize("kind", Compare)
def test_equal_results_are_right_in_any_order_of_the_keys(kind):
    compare([RIGHT[1], RIGHT[0], RIGHT[2], RIGHT[3]], kind)


def test_the_order_of_a_key_counts_where_it_must():
    with pytest.raises(ResultsDiffer, match="b'a' has 2 records instead of 2, and number 0"):
        compare([RIGHT[2], RIGHT[1], RIGHT[0], RIGHT[3]], Compare.ORDERED)
    compare([RIGHT[2], RIGHT[1], RIGHT[0], RIGHT[3]], Compare.ALL)


def test_a_table_may_be_updated_more_often_on_the_way():
    compare([(b"a", b"0"), *RIGHT, (b"b", b"7"), (b"b", b"1")], Compare.LAST)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[1:3], r"b'b': None instead|\(b'a', b'1'\) is missing"),
        (lambda rows: [*rows, (b"b", b"9")], r"b'b': b'9' instead|\(b'b', b'9'\) is too many"),
        (lambda rows: [*rows, (b"d", b"1")], r"b'd': b'1', which must not be there|\(b'd', b'1'\) is too many"),
    ],
    ids=["lost", "wrong", "of no record"],
)
def test_wrong_records_are_named(change, said):
    with pytest.raises(ResultsDiffer, match=said):
        compare(change(RIGHT), Compare.ALL)
    if change(RIGHT)[0] == RIGHT[0]:
        with pytest.raises(ResultsDiffer, match=said):
            compare(change(RIGHT), Compare.LAST)


def test_a_record_that_comes_twice_is_wrong_where_the_whole_set_counts():
    with pytest.raises(ResultsDiffer, match="is too many"):
        compare([*RIGHT, RIGHT[2]], Compare.ALL)
    with pytest.raises(ResultsDiffer, match="3 records instead of 2"):
        compare([*RIGHT, RIGHT[2]], Compare.ORDERED)
