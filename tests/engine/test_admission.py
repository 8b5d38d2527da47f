"""What an epoch takes when more waits: any backlog is read to its end, each offset once, and in order of time."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.engine.history import DAY, MINUTE, START, history, shop, written

from penstock import StreamsBuilder
from penstock.clock import MockClock
from penstock.engine.admission import Admission, co_ordered_sources
from penstock.engine.event_time_cut import EventTimeCut
from penstock.engine.offsets import Input
from penstock.engine.time_index import FOREVER, Head, TimeIndex
from penstock.errors import BrokerError
from penstock.log.base import LogRecord, TopicSpec
from penstock.log.memory import MemoryLog
from penstock.protocol.request import Range

Place = tuple[str, int]
NOW = START + 5 * DAY


def kept(*topics: str):
    """A topology that keeps something of all topics, in one group."""
    builder = StreamsBuilder()
    first, *others = (builder.stream(topic) for topic in topics)
    for other in others:
        first = first.merge(other)
    first.group_by_key().count(store="counts")
    return builder.build()


def log_of(backlog: dict[Place, list[int]], transaction: int = 0) -> MemoryLog:
    """Return a log with records of these times; ``transaction``: a marker of the year 2099 follows this many of them."""
    log = MemoryLog(MockClock(4_070_908_800_000))
    log.admin.ensure_topics([TopicSpec(topic, 3) for topic in {topic for topic, _ in backlog}])
    for place, times in backlog.items():
        write(log, place, times, transaction)
    return log


def write(log: MemoryLog, place: Place, times: list[int], transaction: int = 0) -> None:
    producer = log.producer("w" if transaction else None)
    producer.init()
    size = transaction or max(1, len(times))
    for at in range(0, len(times), size):
        producer.begin()
        producer.produce([(*place, b"k", b"v", time, ()) for time in times[at : at + size]])
        producer.commit()


def reading(log: MemoryLog, topology, limit: int, **how) -> Input:
    made = Input(log, topology, group="g", clock=MockClock(NOW), max_records=limit, refresh_ms=0, **how)
    made.start()
    return made


def epochs(source: Input) -> Iterable[list[Range]]:
    while ranges := source.choose():
        yield ranges
        source.advance(ranges)


def in_lane_order(
    log: MemoryLog, ranges: Iterable[Range], reached: dict[Place, int]
) -> list[tuple[int, str, int, int]]:
    """Return the records of an epoch as a lane takes them: by the time that their partition had reached."""
    rows = []
    for topic, partition, start, end in ranges:
        for record in log.reader().read(topic, partition, start, end):
            at = reached[topic, partition] = max(reached.get((topic, partition), -1), record.timestamp)
            rows.append((at, topic, partition, record.offset))
    return sorted(rows)


PLACES = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2))
TIMES = st.one_of(
    st.integers(START, START + 50),
    st.integers(START, START + DAY),
    st.sampled_from([1, START, START + 7, NOW, NOW + DAY, 2**50]),
)
BACKLOGS = st.dictionaries(PLACES, st.lists(TIMES, min_size=1, max_size=25), min_size=1, max_size=6)
SORTED = st.dictionaries(PLACES, st.lists(TIMES, min_size=1, max_size=25).map(sorted), min_size=1, max_size=6)


@given(BACKLOGS, st.integers(1, 30), st.integers(0, 4))
def test_any_backlog_is_read_to_its_end_each_offset_once_and_no_epoch_is_empty_or_too_large(
    backlog, limit, transaction
):
    log = log_of(backlog, transaction)
    source = reading(log, kept(*sorted({topic for topic, _ in backlog})), limit)
    positions = dict(source.positions)
    for ranges in epochs(source):
        assert 0 < sum(end - start for _, _, start, end in ranges) <= limit
        for topic, partition, start, end in ranges:
            assert positions[topic, partition] == start < end
            positions[topic, partition] = end
    assert positions == log.admin.end_offsets(positions)
    assert not source.behind()


@given(BACKLOGS, st.integers(1, 30))
@example({("a", 0): [START + 9, START, START + 1], ("b", 0): [START + 5, START + 9, START + 9]}, 2)
def test_epochs_one_after_the_other_are_in_the_order_of_one_epoch_over_everything(backlog, limit):
    log = log_of(backlog)
    source = reading(log, kept(*sorted({topic for topic, _ in backlog})), limit)
    everything = [Range(*place, 0, len(times)) for place, times in backlog.items()]
    reached: dict[Place, int] = {}
    taken = [row for ranges in epochs(source) for row in in_lane_order(log, ranges, reached)]
    assert taken == in_lane_order(log, everything, {})


@given(SORTED, st.integers(1, 30), st.integers(1, 4))
def test_markers_from_the_future_do_not_change_the_order(backlog, limit, transaction):
    log = log_of(backlog, transaction)
    source = reading(log, kept(*sorted({topic for topic, _ in backlog})), limit)
    reached: dict[Place, int] = {}
    taken = [row for ranges in epochs(source) for row in in_lane_order(log, ranges, reached)]
    assert [row[0] for row in taken] == sorted(row[0] for row in taken)


@given(
    st.lists(TIMES, min_size=1, max_size=60),
    st.lists(st.sampled_from("cam"), min_size=1, max_size=12),
    st.integers(1, 5),
    TIMES,
)
def test_the_time_index_finds_the_first_record_of_a_time_within_its_stretch(times, fates, stretch, time):
    """Records are written in transactions, some of them aborted; what is found is what a reader sees."""
    log = log_of({("a", 0): []})
    for number, timestamp in enumerate(times):
        producer = log.producer("w")
        producer.init()
        producer.begin()
        producer.produce([("a", 0, b"k", b"v", timestamp, ())])
        (producer.abort if fates[number % len(fates)] == "a" else producer.commit)()
    end = log.admin.end_offsets([("a", 0)])["a", 0]
    records = list(log.reader().read("a", 0, 0, end))
    index = TimeIndex(log, stretch=max(stretch, len(records)))
    for offset in range(end):
        first = next((Head(r.offset, r.timestamp) for r in records if r.offset >= offset), None)
        assert index.head(("a", 0), offset, end) == first
    later = [n for n, record in enumerate(records) if record.timestamp >= time]
    left = records[later[0] :] if later else []

    def from_offset(offset: int) -> list[LogRecord]:
        return [record for record in records if record.offset >= offset]

    assert from_offset(index.beyond(("a", 0), time, 0, end)) == left
    if all(one.timestamp <= other.timestamp for one, other in pairwise(records)):
        assert from_offset(TimeIndex(log, stretch).beyond(("a", 0), time, 0, end)) == left


def test_partitions_ahead_wait_and_those_behind_are_read():
    log = log_of({("a", 0): [START + n for n in range(100)], ("b", 1): [START + 50 + n for n in range(100)]})
    source = reading(log, kept("a", "b"), 40)
    first = source.choose()
    assert [each.topic for each in first] == ["a"]
    assert (source.lag(), source.behind()) == (200, True)
    source.advance(first)
    for _ in epochs(source):
        if source.behind():
            read = {place: offset + (50 if place[0] == "b" else 0) for place, offset in source.positions.items()}
            assert read["a", 0] == read["b", 1] or source.positions["b", 1] == 0


def test_when_not_more_waits_than_an_epoch_takes_everything_is_taken():
    log = log_of({("a", 0): [START], ("b", 0): [START + DAY, START + 2 * DAY]})
    source = reading(log, kept("a", "b"), 3)
    assert source.choose() == [Range("a", 0, 0, 1), Range("b", 0, 0, 2)]
    assert not source.behind()


def test_without_alignment_partitions_give_their_share():
    log = log_of({("a", 0): [START + n for n in range(90)], ("b", 0): [START + DAY + n for n in range(10)]})
    assert reading(log, kept("a", "b"), 20, align=False).choose() == [Range("a", 0, 0, 17), Range("b", 0, 0, 3)]
    assert {each.topic for each in reading(log, kept("a", "b"), 20).choose()} == {"a"}


def test_where_nothing_is_kept_partitions_give_their_share():
    log = log_of({("a", 0): [START + n for n in range(90)], ("b", 0): [START + DAY + n for n in range(10)]})
    builder = StreamsBuilder()
    builder.stream("a").merge(builder.stream("b")).to("out")
    assert reading(log, builder.build(), 20).choose() == [Range("a", 0, 0, 17), Range("b", 0, 0, 3)]


def test_what_cannot_meet_does_not_wait_for_each_other():
    log = log_of({("a", 0): [START + n for n in range(90)], ("b", 0): [NOW + n for n in range(10)]})
    builder = StreamsBuilder()
    for topic in "ab":
        builder.stream(topic).group_by_key().count(store=f"counts-{topic}")
    assert reading(log, builder.build(), 20).choose() == [Range("a", 0, 0, 17), Range("b", 0, 0, 3)]


def test_sources_meet_across_a_re_key_and_in_a_store():
    builder = StreamsBuilder()
    table = builder.table("rows")
    builder.stream("lines").select_key(lambda key, value: value).join(table, lambda value, row: row).to("out")
    builder.stream("apart").group_by(lambda key, value: value).count(store="counts")
    builder.stream("copied").map_values(str).to("copies")
    topology = builder.build()
    group_of, ordered = co_ordered_sources(topology)
    topics = {topic: name for name in group_of for topic in topology.nodes[name].topics}
    assert group_of[topics["rows"]] == group_of[topics["lines"]]
    assert len({group_of[topics[topic]] for topic in ("rows", "apart", "copied")}) == 3
    assert ordered == {group_of[topics["rows"]], group_of[topics["apart"]]}


def test_a_partition_that_is_new_and_old_of_content_is_read_first():
    log = log_of({("a", 0): [START + DAY + n for n in range(50)], ("b", 0): [START + DAY + n for n in range(50)]})
    source = reading(log, kept("a", "b"), 10)
    source.advance(source.choose())
    write(log, ("b", 2), [START + n for n in range(30)])
    for _ in range(3):
        ranges = source.choose()
        assert ranges == [
            Range("b", 2, source.positions["b", 2], source.positions["b", 2] + ranges[0].end - ranges[0].start)
        ]
        source.advance(ranges)
    assert sum(end - start for ranges in epochs(source) for _, _, start, end in ranges) > 0
    assert source.lag() == 0


def test_records_deleted_from_a_backlog_are_passed_over():
    log = log_of({("a", 0): [START + n for n in range(50)], ("b", 0): [START + n for n in range(50)]})
    source = reading(log, kept("a", "b"), 20)
    source.advance(source.choose())
    log.admin.delete_records({("a", 0): 40})
    ranges = source.choose()
    assert [(each.topic, each.start) for each in ranges] == [("b", source.positions["b", 0])]
    assert source.positions["a", 0] == 40
    assert source.lost["a", 0] > 0


def test_a_record_far_ahead_of_its_time_holds_up_its_partition_only_until_it_is_read():
    """Its partition waits at it while others have older records; behind it the records go by their own times again."""
    times = [START + n for n in range(60)]
    log = log_of({("a", 0): [*times[:20], NOW + DAY, *times[20:]], ("b", 0): times})
    source = reading(log, kept("a", "b"), 15)
    order = [{each.topic for each in ranges} for ranges in epochs(source)]
    assert order[0] == {"a", "b"}
    assert {"b"} in order
    assert source.lag() == 0
    write(log, ("a", 0), [START + 100 + n for n in range(40)])
    write(log, ("b", 0), [START + 100 + n for n in range(40)])
    taken = source.choose()
    assert {each.topic for each in taken} == {"a", "b"}
    assert abs((taken[0].end - taken[0].start) - (taken[1].end - taken[1].start)) <= 1


def test_what_cannot_be_looked_at_is_where_the_index_says(caplog):
    log = log_of({("a", 0): [START + n for n in range(10)]})
    log.admin.delete_records({("a", 0): 5})
    index = TimeIndex(log)
    with caplog.at_level(logging.WARNING, "penstock.engine"):
        assert index.head(("a", 0), 3, 10) == Head(3, FOREVER)
        assert index.beyond(("a", 0), START + 9, 3, 10) == 3
    assert "a-0 cannot be looked at" in caplog.text


def test_a_cluster_that_does_not_answer_is_waited_for_and_not_guessed_at():
    log = log_of({("a", 0): [START]})
    with pytest.raises(BrokerError, match="nothing comes after 1"):
        TimeIndex(log).beyond(("a", 0), START + 1, 0, 3)


def test_few_requests_find_the_time():
    """On a history whose pace changes by day and night and from partition to partition."""
    steps = history("requests", every=20 * MINUTE)
    log, builder = written(steps), StreamsBuilder()
    shop(builder)
    topology = builder.build()
    source = reading(log, topology, 200)
    count = sum(1 for _ in epochs(source))
    (cut,) = source._admission._cuts.values()
    assert isinstance(cut, EventTimeCut)
    assert cut.requests <= 3 * count


def test_one_partition_needs_no_request():
    log = log_of({("a", 0): [START + n for n in range(50)]})
    source = reading(log, kept("a"), 20)
    assert source.choose() == [Range("a", 0, 0, 20)]
    assert source._admission._cuts == {}


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_epochs_smaller_than_the_number_of_partitions_go_on(limit):
    log = log_of({(topic, partition): [START] * 4 for topic in "ab" for partition in range(3)})
    source = reading(log, kept("a", "b"), limit)
    places = [(each.topic, each.partition) for ranges in epochs(source) for each in ranges]
    assert [place for n, place in enumerate(places) if place not in places[:n]] == sorted(set(places))


def test_a_waiting_group_is_not_forgotten_when_the_limit_is_small():
    admission = Admission(MemoryLog(), kept("a"), clock=MockClock(), limit=1)
    assert sum(admission.take({("a", 0): 5}, {("a", 0): 0}, {"a": "KSTREAM-SOURCE-0000000000"}).values()) == 1
