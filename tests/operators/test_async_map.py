"""map_values_async in the test driver: what comes out, in which order, and what becomes of a call that fails."""

import asyncio
import threading
from functools import partial

import pytest

from penstock import Serdes, Stores, StreamsBuilder
from penstock.engine.fingerprint import fingerprint
from penstock.errors import ProcessingError, SerializationError
from penstock.plan.passes import make_plan
from penstock.testing import TopologyTestDriver

TEXT = {"key": Serdes.string, "value": Serdes.string}


def driver_of(define, *, auto_commit=False, lanes=1, partitions=1, **config):
    builder = StreamsBuilder()
    define(builder.stream("in", **TEXT)).to("out", **TEXT)
    config = {"shards": 1 if lanes == 1 else 16, **config}  # in one shard all records are in order, whatever their keys
    return TopologyTestDriver(builder, config=config, lanes=lanes, partitions=partitions, auto_commit=auto_commit)


def run(define, records, **options):
    """Pipe (key, value) as one epoch; return (key, value) in the order of the output."""
    with driver_of(define, **options) as driver:
        topic = driver.input_topic("in", **TEXT)
        for time, (key, value) in enumerate(records):
            topic.pipe(key, value, timestamp=time)
        driver.commit()
        return [(r.key, r.value) for r in driver.output_topic("out").read_all()]


async def upper(value):
    await asyncio.sleep(0)
    return value.upper()


def blocking_upper(value):
    return value.upper()


class Prefix:
    def __init__(self, prefix):
        self.prefix = prefix

    async def __call__(self, value):
        return self.prefix + value


@pytest.mark.parametrize("auto_commit", [True, False])
@pytest.mark.parametrize("function", [upper, blocking_upper, str.upper, partial(upper)])
def test_a_value_becomes_the_answer(function, auto_commit):
    records = [("a", "x"), ("b", "y"), ("a", "z")]
    found = run(lambda s: s.map_values_async(function), records, auto_commit=auto_commit)
    assert found == [("a", "X"), ("b", "Y"), ("a", "Z")]


def test_an_object_with_an_async_call_keeps_its_state():
    assert run(lambda s: s.map_values_async(Prefix("->")), [("a", "x")]) == [("a", "->x")]


@pytest.mark.parametrize("function", [lambda key, value: f"{key}:{value}", str.__add__])
def test_with_key_gives_the_key_first(function):
    found = run(lambda s: s.map_values_async(function, with_key=True), [("a", "x")])
    assert found == [("a", function("a", "x"))]


async def is_null(value):
    return "null" if value is None else None


def test_null_values_are_asked_about_and_may_be_answers():
    assert run(lambda s: s.map_values_async(is_null), [("a", None), ("b", "x")]) == [("a", "null"), ("b", None)]


def test_records_without_a_key_pass():
    assert run(lambda s: s.map_values_async(upper), [(None, "x"), (None, "y")], lanes=3) == [(None, "X"), (None, "Y")]


def test_timestamps_and_headers_stay():
    with driver_of(lambda s: s.map_values_async(upper)) as driver:
        driver.input_topic("in", **TEXT).pipe("a", "x", timestamp=17, headers=(("trace", b"7"),))
        driver.commit()
        record = driver.output_topic("out").read()
    assert (record.timestamp, record.headers) == (17, (("trace", b"7"),))


class Reversing:
    """Answers the last of so many calls first."""

    def __init__(self, total):
        self.total, self.answered = total, []
        self.all_there = asyncio.Event()
        self.begun = 0

    async def __call__(self, value):
        self.begun += 1
        if self.begun == self.total:
            self.all_there.set()
        await self.all_there.wait()
        while len(self.answered) < self.total - 1 - int(value):
            await asyncio.sleep(0)
        self.answered.append(value)
        return value


def test_answers_leave_in_the_order_of_the_records_however_they_come():
    records = [(f"k{number % 3}", str(number)) for number in range(20)]
    reversing = Reversing(20)
    assert run(lambda s: s.map_values_async(reversing), records) == records
    assert reversing.answered == [str(number) for number in reversed(range(20))]


def test_a_slow_record_does_not_hold_up_the_calls_of_others():
    """The call of the first record ends only when those of all others have."""
    others = threading.Semaphore(0)

    def lookup(value):
        if value == "slow":
            for _ in range(10):
                assert others.acquire(timeout=30)
        else:
            others.release()
        return value

    records = [("a", "slow"), *((f"k{number}", "quick") for number in range(10))]
    assert run(lambda s: s.map_values_async(lookup, concurrency=2), records) == records


def test_the_bound_is_one_of_the_lane_over_all_its_shards():
    inside, greatest = set(), []

    async def count(key, value):
        inside.add(value)
        greatest.append(len(inside))
        for _ in range(5):
            await asyncio.sleep(0)
        inside.remove(value)
        return value

    records = [(f"k{number}", str(number)) for number in range(60)]
    found = run(
        lambda s: s.map_values_async(count, concurrency=4, with_key=True), records, lanes=1, shards=16, partitions=1
    )
    assert sorted(found) == sorted(records)
    assert max(greatest) == 4


# failures


def fail_on_bad(value):
    if value == "bad":
        raise ValueError("it is bad")
    return value


async def fail_later(value):
    await asyncio.sleep(0)
    return fail_on_bad(value)


FAIL_LATER_LINE = fail_later.__code__.co_firstlineno + 2
MIXED = [("a", "x"), ("a", "bad"), ("b", "y")]


@pytest.mark.parametrize("function", [fail_on_bad, fail_later])
def test_a_call_that_fails_names_node_record_and_line(function):
    with driver_of(lambda s: s.map_values_async(function, name="lookup")) as driver:
        topic = driver.input_topic("in", **TEXT)
        for time, (key, value) in enumerate(MIXED):
            topic.pipe(key, value, timestamp=time)
        with pytest.raises(ProcessingError) as caught:
            driver.commit()
    error = caught.value
    assert error.node == "lookup"
    assert str(error).startswith("ValueError: it is bad")
    assert "in-0@1 (timestamp 1)" in str(error)
    assert f"{function.__qualname__} ({__file__}:" in str(error)
    assert isinstance(error.__cause__, ValueError)
    if function is fail_later:
        assert f"raised at line {FAIL_LATER_LINE}" in str(error)


class FailingClient:
    async def __call__(self, value):
        raise LookupError(value)


def test_the_line_of_an_objects_call_is_named_too():
    with pytest.raises(ProcessingError, match=r"FailingClient.__call__ \(.*, raised at line \d+"):
        run(lambda s: s.map_values_async(FailingClient()), [("a", "x")])


def test_skip_drops_the_record_and_counts_it():
    with driver_of(lambda s: s.map_values_async(fail_later, name="lookup"), on_processing_error="skip") as driver:
        driver.input_topic("in", **TEXT).pipe_all(MIXED, start=0)
        driver.commit()
        assert driver.output_topic("out").read_values() == ["x", "y"]
        assert driver.metrics()["dropped_by_node"] == {("lookup", "processing_error"): 1}


def test_a_dead_letter_is_the_source_record_of_the_call():
    config = {"on_processing_error": "dead_letter", "dead_letter_topic": "dead"}
    with driver_of(
        lambda s: s.map_values(lambda v: v).map_values_async(fail_on_bad, name="lookup"), **config
    ) as driver:
        driver.input_topic("in", **TEXT).pipe_all(MIXED, start=5)
        driver.commit()
        (letter,) = driver.output_topic("dead", **TEXT).read_all()
        assert driver.output_topic("out").read_values() == ["x", "y"]
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == ("a", "bad")
    assert headers["__streams.errors.exception"] == b"ValueError"
    assert headers["__streams.errors.offset"] == b"1"
    assert b"fail_on_bad" in headers["__streams.errors.stacktrace"]


def test_a_handler_decides_record_by_record_and_sees_the_record():
    seen = []

    def handler(error, record):
        seen.append((type(error.__cause__), error.node, error.origin.offset, record.key, record.value))
        return "skip"

    run(lambda s: s.map_values_async(fail_on_bad, name="lookup"), MIXED, on_processing_error=handler)
    assert seen == [(ValueError, "lookup", 1, "a", "bad")]


async def never(value):
    await asyncio.Event().wait()


def test_a_call_without_an_answer_in_time_fails_as_any_other():
    with pytest.raises(ProcessingError, match=r"(?s)TimeoutError: no answer within 20 ms.*never"):
        run(lambda s: s.map_values_async(never, timeout=20), [("a", "x")])


def test_retries_come_before_the_policy():
    failures = {"a": 2, "b": 5}

    def sometimes(key, value):
        failures[key] -= 1
        if failures[key] >= 0:
            raise ConnectionError(key)
        return value

    found = run(
        lambda s: s.map_values_async(sometimes, retries=2, backoff=1, with_key=True),
        [("a", "x"), ("b", "y")],
        on_processing_error="skip",
    )
    assert found == [("a", "x")]
    assert failures == {"a": -1, "b": 2}


def test_after_a_failure_nothing_goes_on():
    begun, ended = threading.Event(), threading.Event()

    async def fail_beside_one_that_waits(value):
        if value == "bad":
            while not begun.is_set():
                await asyncio.sleep(0)
            raise ValueError(value)
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with driver_of(lambda s: s.map_values_async(fail_beside_one_that_waits)) as driver:
        driver.input_topic("in", **TEXT).pipe_all([("a", "bad"), ("b", "x")], start=0)
        with pytest.raises(ProcessingError):
            driver.commit()
        assert ended.is_set()


def test_an_answer_that_cannot_travel_is_refused_with_a_remedy():
    with pytest.raises(SerializationError, match=r"(?s)lock.*value="):
        run(lambda s: s.map_values_async(lambda value: threading.Lock()), [("a", "x")])


# what is before and after it


def test_answers_travel_by_the_serde_that_is_given():
    builder = StreamsBuilder()
    builder.stream("in", **TEXT).map_values_async(len, value=Serdes.int64, name="length").to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in", **TEXT).pipe("a", "four")
        assert driver.all_output()["test-app-length-answers"][0][:2] == (b"a", (4).to_bytes(8))
        assert driver.output_topic("out", value=Serdes.int64).read().value == 4


def test_one_call_after_the_other():
    found = run(lambda s: s.map_values_async(upper).map_values_async(Prefix("->")), [("a", "x"), ("b", "y")])
    assert found == [("a", "->X"), ("b", "->Y")]


def test_a_key_of_any_form_is_kept():
    def define(stream):
        pairs = stream.map(lambda key, value: ((key, 1), value)).map_values_async(upper)
        return pairs.map(lambda key, value: (f"{key[0]}{key[1]}", value))

    assert run(define, [("a", "x")], lanes=3) == [("a1", "X")]


def test_a_table_in_a_cache_calls_once_for_each_key_of_a_barrier():
    asked = []

    def note(value):
        asked.append(value)
        return value

    def define(stream):
        return stream.to_table(store="rows").to_stream().map_values_async(note)

    assert run(define, [("a", "1"), ("a", "2"), ("b", "3")]) == [("a", "2"), ("b", "3")]
    assert asked == ["2", "3"]


async def padded(value):
    await asyncio.sleep(0)
    return f"<{value}>"


def test_the_answers_meet_the_table_as_it_was_at_their_time():
    builder = StreamsBuilder()
    table = builder.table("rows", **TEXT, store=Stores.key_value("t", cached=False))
    joined = builder.stream("in", **TEXT).map_values_async(padded).join(table, lambda value, row: value + row)
    joined.to("out", **TEXT)
    with TopologyTestDriver(builder, lanes=3, auto_commit=False) as driver:
        rows, records = driver.input_topic("rows", **TEXT), driver.input_topic("in", **TEXT)
        rows.pipe("k", "1", timestamp=0)
        records.pipe("k", "a", timestamp=1)
        rows.pipe("k", "2", timestamp=2)
        records.pipe("k", "b", timestamp=3)
        driver.commit()
        assert driver.output_topic("out").read_values() == ["<a>1", "<b>2"]


def test_what_a_shared_store_gathered_in_one_shard_goes_back_to_the_shards_of_its_keys():
    from penstock import Processor

    class Gather(Processor):
        def process(self, record):
            self.context.forward(record)

    builder = StreamsBuilder()
    builder.add_state_store(Stores.shared("all"))
    table = builder.table("rows", **TEXT, store="t")
    gathered = builder.stream("in", **TEXT).process_values(Gather, stores=["all"])
    gathered.map_values_async(padded).join(table, lambda value, row: value + row).to("out", **TEXT)
    with TopologyTestDriver(builder, lanes=3) as driver:
        for number in range(8):
            driver.input_topic("rows", **TEXT).pipe(f"k{number}", str(number), timestamp=0)
            driver.input_topic("in", **TEXT).pipe(f"k{number}", "x", timestamp=1)
        assert sorted(driver.output_topic("out").read_values()) == [f"<x>{number}" for number in range(8)]


# how it looks


def lookups():
    builder = StreamsBuilder()
    stream = builder.stream("in", **TEXT).map_values_async(upper, name="lookup")
    stream.group_by_key(**TEXT).count(store="counts")
    return builder.build()


def test_the_description_names_the_node_and_its_way_to_the_next_step():
    topology = lookups()
    text = topology.describe()
    assert "Processor: lookup (stores: [])\n      --> lookup-answers-sink\n      <-- KSTREAM-SOURCE-0000000000" in text
    assert "Source: lookup-answers-source (topics: [lookup-answers])" in text
    assert "lookup" in topology.to_mermaid()


def test_the_calls_are_made_where_the_records_are_read_and_nothing_is_repartitioned():
    plan = make_plan(lookups())
    assert [(step.exchange, step.waits, step.stores) for step in plan.steps] == [
        (False, True, ()),
        (True, False, ("counts",)),
    ]
    assert plan.staying == {"lookup-answers-source"}


def test_the_fingerprint_knows_the_node_but_not_its_function():
    plain = StreamsBuilder()
    plain.stream("in", **TEXT).map_values(str.upper, name="lookup").group_by_key(**TEXT).count(store="counts")
    other = StreamsBuilder()
    stream = other.stream("in", **TEXT).map_values_async(blocking_upper, name="lookup", concurrency=5)
    stream.group_by_key(**TEXT).count(store="counts")
    assert fingerprint(lookups()) == fingerprint(other.build()) != fingerprint(plain.build())


def test_a_generated_name_is_no_name_of_a_topic_in_kafka():
    builder = StreamsBuilder(explicit_names=True)
    builder.stream("in", **TEXT).map_values_async(upper).to("out")
    builder.build()
