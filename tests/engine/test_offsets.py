"""What an epoch reads: every offset once, whatever comes and goes meanwhile."""

from __future__ import annotations

import itertools
import logging
import os
import re
from datetime import timedelta

import pytest
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewPartitions
from hypothesis import given
from hypothesis import strategies as st

from penstock import JoinWindows, StreamsBuilder
from penstock.clock import MockClock
from penstock.engine.admission import share
from penstock.engine.offsets import Input
from penstock.errors import TopicError, TopologyError
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog
from penstock.log.memory import MemoryLog
from penstock.protocol.request import Range

GROUP = "shop"
NUMBERS = itertools.count()


@pytest.fixture
def log():
    return MemoryLog()


@pytest.fixture
def kafka(kafka_broker):
    made = KafkaLog(kafka_broker.bootstrap_servers, timeout=30)
    yield made
    made.close()


@pytest.fixture
def cluster(kafka_broker):
    """Kafka's own admin client, for what only operators of a cluster do."""
    return AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})


@pytest.fixture
def name():
    number = next(NUMBERS)
    return lambda word: f"input-{word}-{os.getpid()}-{number}"


def reads(*topics, **options):
    """A topology with a source for each of the topics, all with the same options."""
    builder = StreamsBuilder()
    for topic in topics:
        builder.stream(topic, **options).foreach(lambda key, value: None)
    return builder.build()


def create(log, name, partitions=1):
    log.admin.ensure_topics([TopicSpec(name, partitions, {"retention.ms": "-1"})])


def write(log, topic, count, partition=0, timestamp=1):
    producer = log.producer(None)
    producer.init()
    producer.begin()
    producer.produce([(topic, partition, None, b"v", timestamp + number, ()) for number in range(count)])
    producer.commit()
    producer.close()


def commit_offsets(log, offsets, group=GROUP):
    producer = log.producer(f"{group}-setup")
    producer.init()
    producer.begin()
    producer.send_offsets(group, offsets)
    producer.commit()
    producer.close()


def started(log, topology, *, clock=None, max_records=1000, group=GROUP, refresh_ms=5000):
    made = Input(log, topology, group=group, clock=clock or MockClock(), max_records=max_records, refresh_ms=refresh_ms)
    made.start()
    return made


def take(input):
    ranges = input.choose()
    input.advance(ranges)
    return ranges


# where to begin


def test_without_offsets_of_the_group_a_source_begins_at_the_beginning(log):
    create(log, "orders", 2)
    write(log, "orders", 3, partition=1)
    input = started(log, reads("orders"))
    assert input.positions == {("orders", 0): 0, ("orders", 1): 0}
    assert input.partitions == {"orders": 2}
    assert input.choose() == [Range("orders", 1, 0, 3)]


def test_a_source_goes_on_at_the_offsets_of_the_group(log):
    create(log, "orders", 2)
    write(log, "orders", 5)
    commit_offsets(log, {("orders", 0): 2})
    input = started(log, reads("orders", offset_reset="latest"))
    assert input.choose() == [Range("orders", 0, 2, 5)]


def test_offsets_that_the_group_has_lost_are_those_of_the_last_barrier(log):
    create(log, "orders", 3)
    for partition in range(3):
        write(log, "orders", 5, partition)
    commit_offsets(log, {("orders", 0): 4})
    source = Input(log, reads("orders", offset_reset="latest"), group=GROUP, clock=MockClock(), max_records=9)
    source.start({("orders", 0): 3, ("orders", 1): 2, ("gone", 0): 1})
    assert source.positions == {("orders", 0): 4, ("orders", 1): 2, ("orders", 2): 5}


def test_latest_begins_at_the_stable_end(log):
    create(log, "orders")
    write(log, "orders", 3)
    writer = log.producer("writer")
    writer.init()
    writer.begin()
    writer.produce([("orders", 0, None, b"open", 1, ())])
    input = started(log, reads("orders", offset_reset="latest"))
    assert input.positions == {("orders", 0): 3}
    assert input.choose() == []
    writer.commit()
    assert input.choose() == [Range("orders", 0, 3, 5)]


def test_none_refuses_to_begin_anywhere_and_says_what_to_do(log):
    create(log, "orders")
    with pytest.raises(TopicError, match=r"'shop' has no offsets of orders-0.*offset_reset='earliest'"):
        started(log, reads("orders", offset_reset="none"))
    commit_offsets(log, {("orders", 0): 0})
    assert started(log, reads("orders", offset_reset="none")).positions == {("orders", 0): 0}


def test_a_duration_begins_that_long_ago_or_at_the_end(log):
    create(log, "orders", 2)
    write(log, "orders", 10, partition=0, timestamp=90_000)
    write(log, "orders", 10, partition=1, timestamp=1)
    input = started(log, reads("orders", offset_reset=timedelta(seconds=10)), clock=MockClock(100_005))
    assert input.positions == {("orders", 0): 5, ("orders", 1): 10}


def test_sources_have_each_their_own_way_to_begin(log):
    builder = StreamsBuilder()
    builder.stream("old", offset_reset="earliest").foreach(lambda key, value: None)
    builder.stream("new", offset_reset="latest").foreach(lambda key, value: None)
    for topic in ("old", "new"):
        create(log, topic)
        write(log, topic, 4)
    assert started(log, builder.build()).positions == {("old", 0): 0, ("new", 0): 4}


def test_a_missing_topic_names_the_source_and_the_command_that_creates_it(log):
    create(log, "orders")
    with pytest.raises(TopicError) as caught:
        started(log, reads("orders", "payments"))
    said = str(caught.value)
    assert "source 'KSTREAM-SOURCE-0000000002' reads topic 'payments', which does not exist" in said
    assert "penstock topics create payments" in said
    assert "'orders'" not in said


def test_a_missing_topic_of_a_global_table_is_named_too(log):
    builder = StreamsBuilder()
    builder.global_table("rates", store="rates")
    with pytest.raises(TopicError, match=r"reads topic 'rates', which does not exist"):
        started(log, builder.build())


def test_repartition_topics_are_not_read(log):
    builder = StreamsBuilder()
    builder.stream("lines").group_by(lambda key, value: value).count(store="counts")
    create(log, "lines", 3)
    input = started(log, builder.build())
    assert input.partitions == {"lines": 3}
    assert input.source_of == {"lines": "KSTREAM-SOURCE-0000000000"}


def test_a_topic_made_anew_is_an_error_with_a_remedy(log):
    create(log, "orders")
    write(log, "orders", 3)
    commit_offsets(log, {("orders", 0): 7})
    with pytest.raises(
        TopicError, match=r"orders-0 ends at offset 3, but was read up to 7: .*made anew.*penstock reset"
    ):
        started(log, reads("orders"))


def test_a_topic_made_anew_while_the_application_runs_is_an_error(log):
    create(log, "orders", 2)
    write(log, "orders", 3)
    input = started(log, reads("orders"))
    take(input)
    log.admin.delete_topics(["orders"])
    with pytest.raises(TopicError, match=r"'orders', which does not exist"):
        input.choose()
    create(log, "orders", 2)
    with pytest.raises(TopicError, match="made anew"):
        input.choose()


def test_a_topic_made_anew_that_is_as_long_as_before_is_an_error_too(log):
    create(log, "orders", 2)
    write(log, "orders", 3)
    input = started(log, reads("orders"), refresh_ms=0)
    take(input)
    log.admin.delete_topics(["orders"])
    create(log, "orders", 2)
    write(log, "orders", 5)
    with pytest.raises(TopicError, match=r"'orders' is not the one that was read before: .*made anew.*penstock reset"):
        input.choose()


def test_a_topic_made_anew_between_two_runs_is_an_error(log):
    create(log, "orders")
    write(log, "orders", 3)
    first = started(log, reads("orders"))
    take(first)
    log.admin.delete_topics(["orders"])
    create(log, "orders")
    write(log, "orders", 5)
    second = Input(log, reads("orders"), group=GROUP, clock=MockClock(), max_records=9)
    with pytest.raises(TopicError, match=r"'orders' is not the one that was read before"):
        second.start(first.positions, first.topic_ids)
    other = Input(log, reads(re.compile("ord.*")), group=GROUP, clock=MockClock(), max_records=9)
    other.start(first.positions, first.topic_ids)
    assert other.choose() == [Range("orders", 0, 0, 5)]


def test_offsets_that_were_moved_since_the_last_barrier_count_and_it_is_said(log, caplog):
    create(log, "orders", 2)
    for partition in range(2):
        write(log, "orders", 9, partition)
    commit_offsets(log, {("orders", 0): 5, ("orders", 1): 7})
    with caplog.at_level(logging.WARNING, logger="penstock.engine"):
        same = Input(log, reads("orders"), group=GROUP, clock=MockClock(), max_records=9)
        same.start({("orders", 0): 5, ("orders", 1): 7})
    assert caplog.text == ""
    with caplog.at_level(logging.WARNING, logger="penstock.engine"):
        moved = Input(log, reads("orders"), group=GROUP, clock=MockClock(), max_records=9)
        moved.start({("orders", 0): 8, ("orders", 1): 7})
    assert "orders-0 at 5, not at 8" in caplog.text
    assert "penstock reset" in caplog.text
    assert moved.positions["orders", 0] == 5


def test_a_topic_with_fewer_partitions_than_before_was_made_anew(log):
    create(log, "orders", 2)
    input = started(log, reads("orders"), refresh_ms=0)
    input.topic_ids = {}  # a cluster that does not tell
    log.admin.delete_topics(["orders"])
    create(log, "orders", 1)
    with pytest.raises(TopicError, match=r"'orders' has 1 partitions, but had 2: .*made anew"):
        input.choose()


def test_offsets_that_were_moved_into_an_open_transaction_wait_for_it(log):
    create(log, "orders")
    writer = log.producer("writer")
    writer.init()
    writer.begin()
    writer.produce([("orders", 0, None, b"v", 1, ())] * 3)
    commit_offsets(log, {("orders", 0): 2})
    input = started(log, reads("orders"))
    assert input.choose() == []
    writer.commit()
    assert input.choose() == [Range("orders", 0, 2, 4)]


# epochs


def test_every_offset_is_read_once_and_in_order(log):
    create(log, "orders", 3)
    input = started(log, reads("orders"), max_records=4)
    ranges = []
    for round in range(5):
        for partition in range(3):
            write(log, "orders", round + partition, partition)
        ranges += take(input)
    while more := take(input):
        ranges += more
    for partition in range(3):
        mine = [(start, end) for _, number, start, end in ranges if number == partition]
        assert [start for start, _ in mine] == [0, *(end for _, end in mine[:-1])]
        assert mine[-1][1] == log.admin.end_offsets([("orders", partition)])["orders", partition]
    assert (input.lag(), input.behind()) == (0, False)


def test_an_epoch_takes_no_more_than_its_limit_and_says_that_more_waits(log):
    create(log, "orders", 2)
    write(log, "orders", 75, 0)
    write(log, "orders", 25, 1)
    input = started(log, reads("orders"), max_records=40)
    assert input.lag() == 100
    ranges = input.choose()
    assert ranges == [Range("orders", 0, 0, 30), Range("orders", 1, 0, 10)]
    assert (input.lag(), input.behind()) == (100, True)
    input.advance(ranges)
    assert (input.lag(), input.lags()) == (60, {("orders", 0): 45, ("orders", 1): 15})
    take(input)
    take(input)
    assert (input.lag(), input.behind()) == (0, False)


def test_what_was_chosen_but_not_committed_is_chosen_again(log):
    create(log, "orders")
    write(log, "orders", 2)
    input = started(log, reads("orders"))
    assert input.choose() == input.choose() == [Range("orders", 0, 0, 2)]


def test_ranges_end_below_open_transactions(log):
    create(log, "orders")
    write(log, "orders", 2)
    writer = log.producer("writer")
    writer.init()
    writer.begin()
    writer.produce([("orders", 0, None, b"v", 1, ())])
    input = started(log, reads("orders"))
    assert take(input) == [Range("orders", 0, 0, 2)]
    assert take(input) == []
    writer.abort()
    assert take(input) == [Range("orders", 0, 2, 4)]  # nothing in it but an aborted record and a marker


PLACES = st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), st.integers(1, 10**7), max_size=8)


@given(PLACES, st.integers(1, 10**6))
def test_the_share_of_a_partition_is_in_proportion_and_nobody_stands_still(waiting, limit):
    taken = share(waiting, limit)
    total = sum(waiting.values())
    assert taken.keys() == waiting.keys()
    assert sum(taken.values()) == min(limit, total)
    for place, count in waiting.items():
        assert 0 <= taken[place] <= count
        assert abs(taken[place] - count * min(limit, total) / (total or 1)) <= len(waiting)
        if limit >= len(waiting):
            assert taken[place] >= 1


# what comes and goes


def test_a_pattern_may_match_nothing_yet_and_new_topics_are_read_from_their_beginning(log):
    clock = MockClock()
    input = started(log, reads(re.compile("sales-.*"), offset_reset="latest"), clock=clock)
    assert (input.partitions, input.choose()) == ({}, [])
    create(log, "sales-north", 2)
    create(log, "returns-north")
    write(log, "sales-north", 3, partition=1)
    assert input.choose() == []
    clock.advance(4999)
    assert input.choose() == []
    clock.advance(1)
    assert take(input) == [Range("sales-north", 1, 0, 3)]
    assert input.partitions == {"sales-north": 2}
    assert input.positions == {("sales-north", 0): 0, ("sales-north", 1): 3}


def test_a_topic_of_a_pattern_that_is_gone_is_not_read_and_the_others_are(log, caplog):
    create(log, "sales-north")
    create(log, "sales-south")
    write(log, "sales-north", 5)
    input = started(log, reads(re.compile("sales-.*")))
    take(input)
    log.admin.delete_topics(["sales-north"])
    write(log, "sales-south", 2)
    assert take(input) == [Range("sales-south", 0, 0, 2)]
    assert input.positions == {("sales-south", 0): 2}
    assert "sales-north is gone" in caplog.text


def test_a_topic_of_a_pattern_that_comes_back_anew_is_read_from_its_beginning(log):
    create(log, "sales-north")
    write(log, "sales-north", 5)
    input = started(log, reads(re.compile("sales-.*")), refresh_ms=0)
    take(input)
    log.admin.delete_topics(["sales-north"])
    assert take(input) == []
    create(log, "sales-north")
    write(log, "sales-north", 2)
    assert take(input) == [Range("sales-north", 0, 0, 2)]


def test_a_topic_of_a_pattern_that_is_made_anew_unseen_is_read_from_its_beginning(log, caplog):
    create(log, "sales-north", 2)
    write(log, "sales-north", 5)
    input = started(log, reads(re.compile("sales-.*")), refresh_ms=0)
    take(input)
    log.admin.delete_topics(["sales-north"])
    create(log, "sales-north", 1)
    write(log, "sales-north", 7)
    assert take(input) == [Range("sales-north", 0, 0, 7)]
    assert input.positions == {("sales-north", 0): 7}
    assert "sales-north was deleted and made anew" in caplog.text


def test_a_pattern_does_not_match_the_topics_of_the_application_itself(log):
    builder = StreamsBuilder()
    builder.stream(re.compile("shop-.*")).group_by_key().count(store="counts")
    for topic in ("shop-orders", "shop-counts-changelog", "shop-epochs", "other-shop-orders"):
        create(log, topic)
    assert started(log, builder.build()).partitions == {"shop-orders": 1}


def test_a_topic_that_two_patterns_match_is_refused(log):
    topology = reads(re.compile("sales-.*"), re.compile(".*-north"))
    create(log, "sales-south")
    input = started(log, topology, refresh_ms=0)
    create(log, "sales-north")
    with pytest.raises(TopologyError, match=r"'sales-north' is matched by the patterns of sources .* narrower"):
        input.choose()


def test_the_ends_of_global_tables(log):
    builder = StreamsBuilder()
    builder.global_table("rates", store="rates")
    builder.stream("orders").foreach(lambda key, value: None)
    create(log, "rates", 2)
    create(log, "orders")
    write(log, "rates", 4, partition=1)
    input = started(log, builder.build())
    assert input.global_ends() == {("rates", 0): 0, ("rates", 1): 4}
    assert input.partitions == {"orders": 1}


# a real cluster


def test_epochs_over_a_real_log_with_a_new_partition_and_open_transactions(kafka, cluster, name):
    topic, group, clock = name("orders"), name("group"), MockClock()
    create(kafka, topic)
    write(kafka, topic, 10)
    input = started(kafka, reads(topic, offset_reset="latest"), group=group, clock=clock)
    assert take(input) == []
    write(kafka, topic, 3)
    assert take(input) == [Range(topic, 0, 10, 13)]
    commit_offsets(kafka, input.positions, group)

    cluster.create_partitions([NewPartitions(topic, 2)])[topic].result()
    write(kafka, topic, 2, partition=1)
    writer = kafka.producer(name("writer"))
    writer.init()
    writer.begin()
    writer.produce([(topic, 0, None, b"v", 1, ())])
    writer.flush()
    clock.advance(5000)
    assert take(input) == [Range(topic, 1, 0, 2)]
    writer.commit()
    again = started(kafka, reads(topic), group=group)
    assert again.positions == {(topic, 0): 13, (topic, 1): 0}
    kafka.admin.delete_topics([topic])


def test_a_topic_of_a_pattern_that_is_deleted_from_a_real_log(kafka, name):
    topic = name("sales")
    create(kafka, topic)
    input = started(kafka, reads(re.compile(re.escape(topic))), group=name("group"))
    assert input.partitions == {topic: 1}
    kafka.admin.delete_topics([topic])
    assert (input.choose(), input.partitions) == ([], {})


def test_records_deleted_before_they_were_read_are_counted_and_said(kafka, cluster, name, caplog):
    topic, group = name("orders"), name("group")
    create(kafka, topic)
    write(kafka, topic, 10)
    input = started(kafka, reads(topic), group=group, max_records=2)
    assert take(input) == [Range(topic, 0, 0, 2)]
    commit_offsets(kafka, input.positions, group)
    for future in cluster.delete_records([Position(topic, 0, 7)]).values():
        future.result()
    with caplog.at_level(logging.WARNING, "penstock.engine"):
        assert input.choose() == [Range(topic, 0, 7, 9)]
    assert input.lost == {(topic, 0): 5}
    assert f"5 offsets of {topic}-0 (2 to 6) were deleted before they were read" in caplog.text
    with pytest.raises(TopicError, match=rf"5 offsets of {topic}-0 .*offset_reset='none'.*forbids"):
        started(kafka, reads(topic, offset_reset="none"), group=group)
    kafka.admin.delete_topics([topic])


def joined(*topics):
    builder = StreamsBuilder()
    left, right = (builder.stream(topic) for topic in topics)
    left.join(right, lambda one, other: one, window=JoinWindows(10)).to("out")
    builder.stream("alone").to("copies")
    return builder.build()


def test_records_wait_for_an_empty_partition_that_they_may_meet_for_so_long(log):
    clock = MockClock(1_000)
    for topic in ("left", "right", "alone"):
        create(log, topic)
    source = Input(log, joined("left", "right"), group=GROUP, clock=clock, max_records=100, idle_ms=500)
    source.start()
    write(log, "left", 2)
    write(log, "alone", 1)
    assert [taken.topic for taken in source.choose()] == ["alone"]  # it meets nobody, and waits for nobody
    source.advance([Range("alone", 0, 0, 1)])
    clock.advance(499)
    assert source.choose() == []
    write(log, "right", 1)
    assert [taken.topic for taken in source.choose()] == ["left", "right"]  # both have some: at once
    source.advance(source.choose())
    write(log, "left", 1)
    assert source.choose() == []
    clock.advance(500)
    assert [taken.topic for taken in source.choose()] == ["left"]  # it has waited for long enough
    source.advance(source.choose())
    write(log, "right", 1)
    source.advance([])
    clock.advance(100)
    assert source.choose() == []  # the other one is empty since then only


@pytest.mark.parametrize("idle_ms", [-1, 0])
def test_what_is_on_the_broker_is_read_without_waiting(log, idle_ms):
    for topic in ("left", "right", "alone"):
        create(log, topic)
    topology = joined("left", "right")
    source = Input(log, topology, group=GROUP, clock=MockClock(0), max_records=100, idle_ms=idle_ms)
    source.start()
    write(log, "left", 2)
    assert source.choose() == [Range("left", 0, 0, 2)]
