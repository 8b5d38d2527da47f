"""Letters that a topology writes, brought back into it: until its function is repaired they come again, and count."""

from tests.dead_letters.letters import records, write

from penstock import Serdes, StreamsBuilder
from penstock.dead_letters.filters import LetterFilter
from penstock.dead_letters.reading import read_letters, topic_ends
from penstock.dead_letters.redrive import redrive
from penstock.testing import TopologyTestDriver

RAW = {"key": Serdes.bytes, "value": Serdes.bytes}


def processed(record, f):
    """What a topology with a function makes of a record of the log: its results, and its dead letters."""
    builder = StreamsBuilder()
    builder.stream("orders").map_values(f, name="divide").to("out")
    config = {"on_processing_error": "dead_letter", "dead_letter_topic": "dead"}
    with TopologyTestDriver(builder, config=config) as driver:
        driver.input_topic("orders", **RAW).pipe(record.key, record.value, record.timestamp, headers=record.headers)
        return driver.output_topic("out").read_values(), driver.output_topic("dead", **RAW).read_all()


def test_a_record_fails_is_redriven_fails_again_and_is_redriven_into_a_repaired_function(log):
    write(log, [("orders", 0, b'"k"', b"0", 7, (("own", b"1"),))])
    for count in range(2):
        results, (letter,) = processed(records(log, "orders")[-1], lambda n: 100 // n)
        assert results == []
        write(log, [("dead", 0, letter.key, letter.value, letter.timestamp, letter.headers)])
        (*_, found) = read_letters(log, topic_ends(log, "dead"))
        assert (found.node, found.exception, found.redrives) == ("divide", "ZeroDivisionError", count)
        assert redrive(log, "dead", LetterFilter(node="divide")).records == 1
    first, *again = records(log, "orders")
    assert [(each.key, each.value, each.timestamp, each.headers[0]) for each in again] == [
        (first.key, first.value, first.timestamp, ("own", b"1"))
    ] * 2
    assert [dict(each.headers)["__penstock.redrive.count"] for each in again] == [b"1", b"2"]
    assert processed(again[-1], lambda n: n + 1) == ([1], [])
