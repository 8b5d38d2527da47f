"""Records come back once, whatever happens on the way: by a cluster in memory."""

import json

import pytest
from tests.dead_letters.letters import letter_row, records, write

from penstock.dead_letters import redrive as module
from penstock.dead_letters.filters import LetterFilter
from penstock.dead_letters.letter import REDRIVE_PREFIX
from penstock.dead_letters.marks import SUFFIX, read_marks
from penstock.dead_letters.planning import plan_redrive
from penstock.dead_letters.reading import read_letters, topic_ends
from penstock.dead_letters.redrive import redrive, transactional_id
from penstock.errors import BrokerError, FencedError, TopicError
from penstock.log.base import TopicSpec

ALL = LetterFilter()


def values(log, topic="orders"):
    return [json.loads(record.value)["n"] for record in records(log, topic)]


def test_a_record_comes_back_as_it_was_into_its_partition(log, dead):
    dead(5)
    result = redrive(log, "dead", ALL)
    assert (result.records, result.letters, result.already, result.refused) == (1, 1, 0, ())
    (record,) = records(log, "orders")
    assert (record.partition, record.key, record.value, record.timestamp) == (1, b"k5", b'{"n": 5}', 5)
    assert record.headers[:2] == (("own", b"1"), (f"{REDRIVE_PREFIX}letter", b"dead-0@0"))


def test_what_was_redriven_is_not_redriven_again(log, dead):
    dead(1, 2)
    redrive(log, "dead", LetterFilter(positions=frozenset([(0, 1)])))
    assert values(log) == [2]
    dead(3)
    assert redrive(log, "dead", ALL).already == 1
    assert redrive(log, "dead", ALL).records == 0
    assert values(log) == [2, 1, 3]


def test_letters_of_one_record_bring_it_back_once(log, dead):
    dead(1, 2, node="a")
    dead(1, node="b", to=1)
    assert redrive(log, "dead", LetterFilter(node="b")).letters == 2
    assert redrive(log, "dead", ALL).records == 1
    assert values(log) == [1, 2]


def test_letters_of_one_record_that_are_all_meant_bring_it_back_once(log, dead):
    dead(1, node="a")
    dead(1, node="b")
    result = redrive(log, "dead", ALL)
    assert (result.records, result.letters) == (1, 2)
    assert values(log) == [1]


def test_a_transaction_ends_once_it_has_so_many_bytes(log, dead, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 20)  # of a letter: ten
    dead(1, 2, 3, 4, 5)
    told = []
    redrive(log, "dead", ALL, progress=lambda written, total: told.append(written))
    assert told == [2, 4, 5]


def test_another_record_at_the_same_offset_is_another_record(log):
    row = letter_row("dead", 1)
    write(log, [row, (*row[:3], b'{"n": 9}', *row[4:])])
    assert redrive(log, "dead", ALL).records == 2


def test_a_plan_writes_nothing(log, dead):
    dead(1, 2)
    plan = plan_redrive(log, "dead", ALL)
    assert (len(plan.records), plan.letters, plan.ranges) == (2, 2, {("dead", 0): (0, 2)})
    assert values(log) == []
    assert f"dead{SUFFIX}" not in log.admin.topics()


def test_letters_that_come_after_the_plan_are_left(log, dead):
    dead(1)
    plan = plan_redrive(log, "dead", ALL)
    dead(2)
    assert redrive(log, "dead", ALL, ends=plan.ends).records == 1
    assert values(log) == [1]


def test_letters_that_cannot_be_redriven_are_named_and_the_others_are_redriven(log, dead):
    dead(1, source="gone")
    dead(2, partition=2)
    dead(3)
    write(log, [("dead", 0, None, b"no letter", 5, ())])
    result = redrive(log, "dead", ALL)
    assert values(log) == [3]
    assert [(each.letter, each.source) for each in result.refused] == [
        ("dead-0@0", "gone-1@1"),
        ("dead-0@1", "orders-2@2"),
        ("dead-0@3", None),
    ]
    assert "penstock topics create gone -p 2" in result.refused[0].why
    assert "2 partition(s)" in result.refused[1].why
    log.admin.ensure_topics([TopicSpec("gone", 2)])
    assert redrive(log, "dead", ALL).records == 1
    assert values(log, "gone") == [1]


def test_a_letter_without_the_bytes_of_its_record_is_left_and_a_tombstone_is_redriven(log):
    """A row that time gives out names the record that moved time, of which nothing is known: a record of nulls must not come of it."""
    row = letter_row("dead", 1)
    write(log, [(*row[:2], None, None, *row[4:]), (*row[:3], None, *row[4:])])
    result = redrive(log, "dead", ALL)
    assert [(each.letter, "neither key nor value" in each.why) for each in result.refused] == [("dead-0@0", True)]
    assert [(record.key, record.value) for record in records(log, "orders")] == [(b"k1", None)]


@pytest.mark.parametrize("position", [(0, 1), (2, 0)])
def test_a_position_without_a_letter_is_an_error(log, dead, position):
    dead(1)
    with pytest.raises(TopicError, match=r"no letter dead-0@1|no partition 2"):
        redrive(log, "dead", LetterFilter(positions=frozenset([position])))


def test_what_was_committed_before_a_failure_is_not_written_again(log, dead, monkeypatch):
    monkeypatch.setattr(module, "MOST_RECORDS", 2)
    dead(1, 2, 3, 4, 5)

    def stop(written, total):
        assert total == 5
        if written == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        redrive(log, "dead", ALL, progress=stop)
    assert values(log) == [1, 2, 3, 4]
    assert redrive(log, "dead", ALL).records == 1
    assert values(log) == [1, 2, 3, 4, 5]


def test_a_redrive_that_another_one_overtakes_is_fenced(log, dead, monkeypatch):
    monkeypatch.setattr(module, "MOST_RECORDS", 1)
    dead(1, 2, 3)
    overtaken = []

    def overtake(written, total):
        if not overtaken:
            overtaken.append(redrive(log, "dead", ALL))

    with pytest.raises(FencedError, match="another redrive from dead"):
        redrive(log, "dead", ALL, progress=overtake)
    assert (overtaken[0].records, overtaken[0].already) == (2, 1)
    assert values(log) == [1, 2, 3]


def test_a_transaction_that_was_left_open_counts_for_nothing(log, dead):
    """What a killed redrive leaves: records and marks that were sent, and not committed."""
    dead(1)
    redrive(log, "dead", ALL)
    dead(2)
    left = log.producer(transactional_id("dead"))
    left.init()
    left.begin()
    first = next(read_letters(log, topic_ends(log, "dead")))
    mark = read_marks(log, "dead").row((0, 1), first, 5)
    left.produce([("orders", 1, b"k2", b'{"n": 2}', 2, ()), mark])
    left.flush()
    assert redrive(log, "dead", ALL).records == 1
    assert values(log) == [1, 2]
    with pytest.raises(BrokerError):
        left.commit()


def test_a_dead_letter_topic_that_is_made_anew_begins_without_marks(log, dead):
    dead(1, 2)
    redrive(log, "dead", ALL)
    log.admin.delete_topics(["dead"])
    log.admin.ensure_topics([TopicSpec("dead", 2)])
    dead(3)
    assert redrive(log, "dead", ALL).records == 1
    assert values(log) == [1, 2, 3]
    assert [record.value for record in records(log, f"dead{SUFFIX}")][2:4] == [None, None]
    assert list(read_marks(log, "dead").foreign) == []


def test_marks_of_letters_that_are_gone_are_deleted(log, dead):
    dead(1, 2)
    redrive(log, "dead", ALL)
    log.admin.delete_records({("dead", 0): 1})
    dead(3)
    redrive(log, "dead", ALL)
    assert set(read_marks(log, "dead").found) == {(0, 1), (0, 2)}
