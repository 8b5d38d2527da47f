"""What is read from a dead letter, and the record that comes of it."""

from penstock.dead_letters.filters import LetterFilter
from penstock.dead_letters.letter import REDRIVE_PREFIX, DeadLetter
from penstock.log.base import LogRecord
from penstock.protocol.failure import HEADER_PREFIX, error_headers, late_headers
from penstock.record import NO_ORIGIN, Origin

ORIGIN = Origin("orders", 3, 17, 50, b"k", b"v", (("own", b"1"), ("own", None)))


def letter(headers, time=50):
    return DeadLetter(LogRecord("dead", 0, 9, b"k", b"v", time, headers))


def test_a_letter_says_what_failed_and_gives_back_the_record():
    found = letter(error_headers(ORIGIN.headers, ORIGIN, "parse", ValueError("bad")))
    assert (found.node, found.exception, found.reason) == ("parse", "ValueError", "bad")
    assert (found.source_name, found.name) == ("orders-3@17", "dead-0@9")
    assert found.details["stacktrace"] == "ValueError: bad\nat node: parse\n"
    topic, partition, key, value, time, headers = found.again(70)
    assert (topic, partition, key, value, time) == ("orders", 3, b"k", b"v", 50)
    assert headers == (
        *ORIGIN.headers,
        (f"{REDRIVE_PREFIX}letter", b"dead-0@9"),
        (f"{REDRIVE_PREFIX}time", b"70"),
        (f"{REDRIVE_PREFIX}count", b"1"),
    )


def test_a_record_that_fails_again_counts_on():
    headers = letter(error_headers(ORIGIN.headers, ORIGIN, "parse", ValueError())).again(70)[5]
    found = letter(error_headers(headers, ORIGIN, "parse", ValueError()))
    assert found.redrives == 1
    assert found.headers == ORIGIN.headers
    assert dict(found.again(80)[5])[f"{REDRIVE_PREFIX}count"] == b"2"


def test_a_late_record_has_a_node_and_no_exception():
    found = letter(late_headers(ORIGIN, "counts", 0, 10, 15))
    assert (found.node, found.exception, found.source_name) == ("counts", None, "orders-3@17")
    assert found.again(70)[5][:2] == ORIGIN.headers


def test_the_time_that_the_dead_letter_topic_did_not_take_comes_back():
    headers = error_headers((), ORIGIN, "parse", ValueError())
    assert letter((*headers, (f"{HEADER_PREFIX}timestamp", b"50")), time=7).again(70)[4] == 50


def test_headers_of_a_letter_that_was_a_source_record_stay():
    inner = (*error_headers(ORIGIN.headers, ORIGIN, "parse", ValueError()), (f"{HEADER_PREFIX}timestamp", b"3"))
    origin = Origin("dead", 0, 4, 50, b"k", b"v", inner)
    for outer in (error_headers(inner, origin, "again", KeyError()), late_headers(origin, "again", 0, 1, 2)):
        found = letter(outer)
        assert (found.node, found.source_name, found.headers) == ("again", "dead-0@4", inner)


def test_a_letter_without_a_record_has_no_source():
    found = letter(error_headers((), NO_ORIGIN, "tick", ValueError()))
    assert (found.source, found.source_name) == (None, None)
    assert letter(()).source is None
    assert letter(((f"{HEADER_PREFIX}topic", b"t"), (f"{HEADER_PREFIX}partition", b"?"))).source is None


def test_filters_ask_for_all_that_they_name():
    found = letter(error_headers((), ORIGIN, "parse", UnicodeError("bad")))
    yes = [
        LetterFilter(node="parse", exception="UnicodeError", topic="orders", since=50),
        LetterFilter(positions=frozenset([(0, 9)])),
        LetterFilter(),
    ]
    no = [
        LetterFilter(node="pars"),
        LetterFilter(exception="Error"),
        LetterFilter(topic="dead"),
        LetterFilter(since=51),
        LetterFilter(positions=frozenset([(9, 0)])),
    ]
    assert all(each.matches(found) for each in yes)
    assert not any(each.matches(found) for each in no)
    assert [each.says_nothing for each in (*yes, *no)] == [False, False, True] + [False] * 5
