"""What cannot be handled: the error says where and why, nothing of its epoch is committed, policies decide."""

import random
from threading import Event

import pytest

from penstock import (
    DeserializationError,
    ProcessingError,
    ProductionError,
    Serdes,
    SerializationError,
    State,
    Stores,
    StreamsBuilder,
    TimestampError,
    TopicError,
)
from penstock.clock import SystemClock
from penstock.log import partition_queue, producers
from penstock.log.kafka import KafkaLog
from penstock.query.queries import KeyQuery

START = 1_600_000_020_000
TEXT = {"key": Serdes.string, "value": Serdes.string}


@pytest.fixture
def topics(cluster):
    return cluster.topic("lines"), cluster.topic("out")


def shouting(lines, out, how="value"):
    """A stream in capitals behind a re-key, whose function fails on some values."""

    def refuse(value):
        if "bad" in value:
            raise ValueError(f"no {value} here")
        return value.upper()

    builder = StreamsBuilder()
    stream = builder.stream(lines, **TEXT)
    if how == "re-keyed":
        stream = stream.select_key(lambda key, value: value[-1]).repartition(name="again", **TEXT)
    stream.map_values(refuse, name="shout").to(out, **TEXT, name="loud")
    return builder


@pytest.mark.parametrize("how", ["value", "re-keyed"])
def test_an_exception_says_node_record_and_line_and_nothing_is_committed(start, cluster, topics, how):
    lines, out = topics

    def explode(value):
        if value == "bad":
            return 1 / len("")  # the line
        return value

    builder = StreamsBuilder()
    stream = builder.stream(lines, **TEXT)
    if how == "re-keyed":
        stream = stream.select_key(lambda key, value: value).repartition(name="again", **TEXT)
    stream.map_values(explode, name="exploding").to(out, **TEXT)
    stream.group_by_key().count(store="counts")
    cluster.send(lines, ("a", "good", START))
    driven = start(builder).drain()
    cluster.send(lines, ("a", "good", START), ("a", "bad", START + 5), ("a", "good", START))
    with pytest.raises(ProcessingError) as raised:
        driven.drain()
    error = raised.value
    assert error.node == "exploding"
    assert (error.origin.topic, error.origin.partition, error.origin.offset) == (lines, 0, 2)
    said = str(error)
    assert "ZeroDivisionError" in said
    assert f"{lines}-0@2 (timestamp {START + 5})" in said
    assert "explode" in error.function
    assert __file__ in error.function
    assert "raised at line" in error.function
    assert '1 / len("")  # the line' in error.remote_traceback
    assert len(cluster.read(out)) == 1
    assert cluster.log.admin.committed(start.application_id) == {(lines, 0): 1}
    assert driven.loop.totals.retries == 0
    assert dict(driven.view("counts").all()) == {"good" if how == "re-keyed" else "a": 1}


LETTERS = ("__streams.errors.exception", "__streams.errors.message", "__streams.errors.topic",
           "__streams.errors.partition", "__streams.errors.offset")  # fmt: skip


def plain(rows):
    """Rows without the text of the traceback, which differs with where the function was called."""
    assert all(any(name == "__streams.errors.stacktrace" for name, _ in headers) for *_, headers in rows)
    return [
        (key, value, time, [(name, data) for name, data in headers if not name.endswith("stacktrace")])
        for key, value, time, headers in rows
    ]


@pytest.mark.parametrize("how", ["value", "re-keyed"])
@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_a_policy_decides_about_a_record_that_fails(start, cluster, topics, twin, how, policy):
    lines, out = topics
    dead = cluster.topic("dead")
    settings = {"on_processing_error": policy, "dead_letter_topic": dead}
    topology = shouting(lines, out, how).build()
    rows = [
        ("a", "good1", START),
        ("b", "bad1", START + 1, 0, (("h", b"1"), ("e", None))),
        ("a", "good2", START + 2),
        (None, "bad2", START + 3),
    ]
    model = twin(topology, **settings)
    model.send(lines, *rows)
    model.driver.commit()
    cluster.send(lines, *rows)
    driven = start(topology, **settings).drain()
    assert sorted(cluster.rows(out)) == sorted(model.rows(out))
    assert len(cluster.rows(out)) == 2
    letters = sorted(plain(cluster.rows(dead)), key=lambda letter: letter[2])
    assert letters == sorted(plain(model.rows(dead)), key=lambda letter: letter[2])
    assert [(key, value, time) for key, value, time, _ in letters] == (
        [] if policy == "skip" else [(b"b", b"bad1", START + 1), (None, b"bad2", START + 3)]
    )
    if letters:
        assert [name for name, _ in letters[0][3]] == ["h", "e", *LETTERS]
    assert driven.loop.totals.dropped == {("shout", "processing_error"): 2}


@pytest.mark.parametrize("how", ["plain", "extracted", "counted"])
@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
def test_a_policy_decides_about_a_record_that_cannot_be_read(start, cluster, topics, twin, policy, how):
    lines, out = topics
    dead = cluster.topic("dead")
    settings = {"on_deserialization_error": policy, "dead_letter_topic": dead}
    extractor = (lambda record: record.value) if how == "extracted" else None
    builder = StreamsBuilder()
    stream = builder.stream(lines, value=Serdes.int64, timestamp=extractor, name="lines")
    if how == "counted":
        stream = stream.group_by_key().count(store=Stores.key_value("counts", cached=False)).to_stream()
    stream.to(out, value=Serdes.int64)
    topology = builder.build()
    good = (START + 7).to_bytes(8, "big")
    rows = [
        ("a", good, START),
        ("a", b"short", START + 1, 0, (("h", b"1"),)),
        (b"\xff", good, START + 2),
        ("a", good, START + 3),
        ("a", good, START + 4, 0, (("h", b"1"), ("\udcff\udcfe", b"2"))),  # a name of the bytes ff fe
    ]
    cluster.send(lines, *rows)
    if policy == "fail":
        with pytest.raises(DeserializationError) as raised:
            start(topology, **settings).drain()
        assert raised.value.node == "lines"
        assert raised.value.origin.offset in (1, 2, 4)
        assert f"{lines}-0@{raised.value.origin.offset}" in str(raised.value)
        assert cluster.read(out) == []
        return
    model = twin(topology, **settings)
    model.send(lines, *rows)
    model.driver.commit()
    driven = start(topology, **settings).drain()
    assert cluster.rows(out) == model.rows(out)
    assert len(cluster.rows(out)) == 2
    assert sorted(plain(cluster.rows(dead))) == sorted(plain(model.rows(dead)))
    assert len(cluster.rows(dead)) == (3 if policy == "dead_letter" else 0)
    if policy == "dead_letter":  # with the bytes of its header
        (letter,) = (row for row in cluster.rows(dead) if row[2] == START + 4)
        assert letter[:2] == (b"a", good)
        assert letter[3][:2] == (("h", b"1"), ("\udcff\udcfe", b"2"))
        assert b"is not UTF-8: b'\\xff\\xfe'" in dict(letter[3])["__streams.errors.message"]
    assert driven.loop.totals.dropped == {("lines", "deserialization_error"): 3}


@pytest.mark.parametrize("inline_epoch_records", [0, 100])
def test_a_header_name_that_is_not_utf_8_fails_with_the_record_named_and_is_passed_by_when_told_so(
    start, cluster, topics, inline_epoch_records
):
    lines, out = topics
    builder = StreamsBuilder()
    builder.stream(lines, **TEXT, name="lines").to(out, **TEXT)
    topology = builder.build()
    cluster.send(lines, ("a", "1", START), ("b", "2", START, 0, (("\udcff", b"1"),)), ("c", "3", START))
    with pytest.raises(DeserializationError) as raised:
        start(topology, inline_epoch_records=inline_epoch_records).drain()
    assert raised.value.node == "lines"
    assert f"{lines}-0@1" in str(raised.value)
    assert "not UTF-8" in str(raised.value)
    start(topology, inline_epoch_records=inline_epoch_records, on_deserialization_error="skip").drain()
    assert cluster.texts(out) == [("a", "1"), ("c", "3")]


def random_rows(count):
    """Rows of random bytes: keys, values and names of headers; librdkafka ends a name at a byte of zero."""
    chosen = random.Random(5)

    def some(*others):
        return chosen.choice([None, b"", *others, chosen.randbytes(chosen.randrange(1, 9))])

    def named():
        return chosen.choice([b"h", b"\xff", chosen.randbytes(3).replace(b"\0", b"")]).decode(
            "utf-8", "surrogateescape"
        )

    return [
        (some(b"k", b"l"), some(b"1", b'{"n": 1}'), START + n, 0, ((named(), some()),) * (n % 4 == 0))
        for n in range(count)
    ]


@pytest.mark.parametrize("how", ["jobs", "inline", "inline in Python"])
def test_records_of_random_bytes_are_read_or_judged(start, cluster, topics, twin, how, monkeypatch):
    if partition_queue.loops is None or not producers.uses_wire():
        pytest.skip("the loops in C are not built here: librdkafka's Python client writes no such names")
    lines, out = topics
    dead = cluster.topic("dead")
    settings = {"on_deserialization_error": "dead_letter", "dead_letter_topic": dead}
    builder = StreamsBuilder()
    builder.stream(lines, key=Serdes.string, value=Serdes.json, name="lines").to(out, value=Serdes.json)
    topology = builder.build()
    rows = random_rows(300)
    model = twin(topology, **settings)
    model.send(lines, *rows)
    model.driver.commit()
    cluster.send(lines, *rows)
    with monkeypatch.context() as patch:
        if how == "inline in Python":
            patch.setattr(partition_queue, "loops", None)
        driven = start(topology, inline_epoch_records=0 if how == "jobs" else 20_000, **settings).drain()
    assert cluster.rows(out) == model.rows(out)
    told, wanted = cluster.rows(dead), model.rows(dead)
    assert 20 < len(told) < 280
    assert len(told) + len(cluster.rows(out)) == len(rows)
    assert driven.loop.totals.dropped == {("lines", "deserialization_error"): len(told)}
    if how == "inline in Python":  # the client tells no other headers
        told, wanted = ([(key, value, time) for key, value, time, _ in letters] for letters in (told, wanted))
    else:
        told, wanted = plain(told), plain(wanted)
    assert sorted(told, key=lambda letter: letter[2]) == sorted(wanted, key=lambda letter: letter[2])


def test_a_negative_timestamp_of_an_extractor_drops_the_record_and_an_exception_fails(start, cluster, topics):
    lines, out = topics

    def time_of(record):
        if record.value == "bad":
            raise ValueError("no time")
        return -1 if record.value == "late" else record.timestamp

    builder = StreamsBuilder()
    builder.stream(lines, **TEXT, timestamp=time_of, name="lines").to(out, **TEXT)
    cluster.send(lines, ("a", "good", START), ("a", "late", START), ("a", "good", START))
    driven = start(builder).drain()
    assert len(cluster.read(out)) == 2
    assert driven.loop.totals.dropped == {("lines", "negative_timestamp"): 1}
    cluster.send(lines, ("a", "good", START), ("a", "bad", START))
    with pytest.raises(TimestampError) as raised:
        driven.drain()
    assert raised.value.origin.offset == 4
    assert "time_of" in raised.value.function
    assert len(cluster.read(out)) == 2


@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
def test_a_policy_decides_about_a_value_that_the_sink_cannot_serialize(start, cluster, topics, twin, policy):
    lines, out = topics
    dead = cluster.topic("dead")
    settings = {"on_production_error": policy, "dead_letter_topic": dead}
    builder = StreamsBuilder()
    stream = builder.stream(lines, **TEXT)
    stream.map_values(lambda value: 2**70 if value == "bad" else 1).to(out, value=Serdes.int64, name="numbers")
    topology = builder.build()
    rows = [("a", "good", START), ("b", "bad", START + 1), ("a", "good", START + 2)]
    cluster.send(lines, *rows)
    driven = start(topology, **settings)
    if policy == "fail":
        with pytest.raises(SerializationError) as raised:
            driven.drain()
        assert raised.value.node == "numbers"
        assert raised.value.origin.offset == 1
        assert cluster.read(out) == []
        return
    model = twin(topology, **settings)
    model.send(lines, *rows)
    model.driver.commit()
    driven.drain()
    assert cluster.rows(out) == model.rows(out)
    assert plain(cluster.rows(dead)) == plain(model.rows(dead))


@pytest.mark.parametrize("by", ["the client", "the broker"])
@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
def test_a_policy_decides_about_a_row_that_is_too_large(start, cluster, policy, by):
    lines, dead = cluster.topic("lines"), cluster.topic("dead")
    out = cluster.topic("out", max_message_bytes=2000) if by == "the broker" else cluster.topic("out")
    kafka = {"producer.message.max.bytes": 3000} if by == "the client" else {}
    builder = StreamsBuilder()
    stream = builder.stream(lines, **TEXT)
    stream.map_values(lambda value: value * 1000 if value == "large" else value).to(out, **TEXT)
    stream.group_by_key().count(store="counts")
    driven = start(builder, on_production_error=policy, dead_letter_topic=dead, kafka=kafka)
    cluster.send(lines, ("a", "small", START), ("b", "large", START + 1, 0, (("h", b"1"),)), ("c", "small", START + 2))
    if policy == "fail":
        with pytest.raises(ProductionError, match=rf"{out}.*(too large|message\.max\.bytes)"):
            driven.drain()
        assert cluster.read(out) == []
        assert driven.loop.totals.retries == 0
        places = [(out, 0)]
        assert cluster.log.admin.end_offsets(places) == cluster.log.admin.stable_offsets(places)
        return
    driven.drain()
    cluster.send(lines, ("c", "large", START + 3), ("c", "small", START + 4))
    driven.drain()
    assert cluster.texts(out) == [("a", "small"), ("c", "small"), ("c", "small")]
    assert driven.loop.totals.refused == {out: 2}
    assert dict(driven.view("counts").all()) == {"a": 1, "b": 1, "c": 3}
    letters = cluster.rows(dead)
    assert len(letters) == (2 if policy == "dead_letter" else 0)
    for (key, value, time, headers), wanted in zip(letters, ((b"b", START + 1), (b"c", START + 3)), strict=False):
        assert (key, time) == wanted
        assert value in (b"large" * 1000, b"large")
        assert dict(headers)["__streams.errors.exception"].endswith(b"ProductionError")


@pytest.mark.parametrize("answer", ["fail", "raise"])
def test_a_handler_that_fails_leaves_no_dead_letter_of_its_epoch(start, cluster, topics, answer):
    lines, out = topics
    letters = cluster.topic("letters")

    def decide(error):
        if "worst" not in str(error):
            return "dead_letter"
        if answer == "raise":
            raise LookupError("the handler does not know")
        return answer

    builder = shouting(lines, out)
    cluster.send(lines, ("a", "bad", START), ("a", "the worst is bad", START), ("a", "good", START))
    driven = start(builder, on_processing_error=decide, dead_letter_topic=letters)
    with pytest.raises(ProcessingError):
        driven.drain()
    assert cluster.texts(letters) == cluster.texts(out) == []


@pytest.mark.parametrize(
    ("policy", "body"), [("fail", "wire"), ("skip", "wire"), ("dead_letter", "wire"), ("dead_letter", "librdkafka")]
)
def test_a_policy_decides_about_a_row_whose_time_its_topic_does_not_take(start, cluster, monkeypatch, policy, body):
    """A topic of Kafka 4 takes an hour ahead; so do changelogs, which the application lets take any time when it comes to that."""
    if body == "librdkafka":
        monkeypatch.setattr(producers, "uses_wire", lambda: False)
    lines, dead = cluster.topic("lines"), cluster.topic("dead")
    out = cluster.topic("out", message_timestamp_before_max_ms=10**10)
    now, far = SystemClock().now_ms(), {"ahead": 10**10, "old": -2 * 10**10}
    builder = StreamsBuilder()
    stream = builder.stream(lines, **TEXT, timestamp=lambda record: now + far.get(record.value, 0))
    stream.to(out, **TEXT, name="loud")
    stream.group_by_key().count(store="counts")
    driven = start(builder, on_production_error=policy, dead_letter_topic=dead)
    cluster.send(lines, ("a", "fine", now), ("b", "ahead", now), ("c", "old", now), ("a", "fine", now))
    if policy == "fail":
        with pytest.raises(
            ProductionError, match=rf"{out} has the time .*message\.timestamp\.(after|before)"
        ) as raised:
            driven.drain()
        assert raised.value.node == "loud"
        assert raised.value.origin.offset in (1, 2)
        assert f"{lines}-0@{raised.value.origin.offset}" in str(raised.value)
        assert cluster.read(out) == []
        places = [(out, 0)]
        assert cluster.log.admin.end_offsets(places) == cluster.log.admin.stable_offsets(places)
        return
    driven.drain()
    assert cluster.texts(out) == [("a", "fine")] * 2
    assert driven.loop.totals.refused == {out: 2}
    assert dict(driven.view("counts").all()) == {"a": 2, "b": 1, "c": 1}
    letters = {key: (value, dict(headers)) for key, value, _, headers in cluster.rows(dead)}
    assert sorted(letters) == ([] if policy == "skip" else [b"b", b"c"])
    if letters:
        value, headers = letters[b"b"]
        assert value == b"ahead"
        assert b"message.timestamp.after.max.ms" in headers["__streams.errors.message"]
        assert headers["__streams.errors.timestamp"] == str(now + far["ahead"]).encode()
        assert headers["__streams.errors.offset"] == b"1"


def test_a_missing_source_topic_is_named_with_the_command_that_creates_it(start, cluster):
    builder = StreamsBuilder()
    builder.stream(cluster.name("nowhere"), name="lines").to(cluster.topic("out"))
    engine, _ = start.make(builder)
    with pytest.raises(TopicError) as raised:
        engine.start()
    assert f"source 'lines' reads topic '{cluster.name('nowhere')}', which does not exist" in str(raised.value)
    assert f"penstock topics create {cluster.name('nowhere')}" in str(raised.value)
    assert f"{start.application_id}-epochs" not in cluster.log.admin.topics()


def test_a_missing_sink_topic_is_created(start, cluster):
    lines = cluster.topic("lines")
    builder = StreamsBuilder()
    builder.stream(lines, **TEXT).to(cluster.name("made"), **TEXT)
    cluster.send(lines, ("a", "1", START))
    start(builder, on_processing_error="dead_letter", dead_letter_topic=cluster.name("letters")).drain()
    assert cluster.log.admin.partitions([cluster.name("made"), cluster.name("letters")]) == {
        cluster.name("made"): 1,
        cluster.name("letters"): 1,
    }
    assert cluster.texts(cluster.name("made")) == [("a", "1")]


def test_a_record_that_ends_the_application_has_a_dead_letter_and_a_restart_goes_on_at_the_barrier(
    start, cluster, topics
):
    """The function fails for the same record twice, then the world is mended: results are those of an undisturbed run."""
    lines, out = topics
    dead, mended = cluster.topic("dead"), start.folder.parent / "mended"
    asked = []

    def fragile(value):
        if value == "bad" and not mended.exists():
            raise ValueError("not yet")
        return value.upper()

    def decide(error):
        asked.append(error)
        if len(asked) == 2:
            mended.touch()
        return "restart"

    builder = StreamsBuilder()
    loud = builder.stream(lines, **TEXT).map_values(fragile, name="fragile")
    loud.to(out, **TEXT)
    loud.group_by_key().count(store="counts")
    app = start.app(
        builder, on_uncaught_error=decide, dead_letter_topic=dead, dead_letter_failures=True, on_processing_error="fail"
    )
    states, hooks = [], []
    app.on_state_change(lambda new, old: states.append(str(new)))
    app.hooks["POST_START"].append(lambda app: hooks.append("started"))
    app.start().wait_until_running(120_000)
    cluster.send(lines, ("a", "one", START))
    app.query("counts", KeyQuery("a"), at_least={(lines, 0): 0}, wait_ms=60_000)
    cluster.send(lines, ("a", "bad", START + 1), ("a", "two", START + 2))
    while len(asked) < 2 or app.state is not State.RUNNING:
        assert app.state not in (State.ERROR, State.PENDING_ERROR), app.error
        Event().wait(0.05)
    result = app.query("counts", KeyQuery("a"), at_least={(lines, 0): 2}, wait_ms=60_000)
    assert result.value == 3
    assert app.metrics()["restarts"] == 2
    assert app.close()
    assert app.error is None
    assert states[:2] == ["REBALANCING", "RUNNING"]
    assert states.count("RUNNING") == 3
    assert hooks == ["started"]
    assert cluster.texts(out) == [("a", "ONE"), ("a", "BAD"), ("a", "TWO")]
    assert [type(error) for error in asked] == [ProcessingError, ProcessingError]
    letters = cluster.rows(dead)
    assert [letter[:3] for letter in letters] == [(b"a", b"bad", START + 1)] * 2
    headers = dict(letters[0][3])
    assert headers["__streams.errors.offset"] == b"1"
    assert b"not yet" in headers["__streams.errors.stacktrace"]
    assert b"at node: fragile" in headers["__streams.errors.stacktrace"]


def test_a_handler_may_want_a_row_that_was_refused_to_be_tried_again(start, cluster):
    """Somebody raises the limit of the topic meanwhile."""
    lines, out = cluster.topic("lines"), cluster.topic("out", max_message_bytes=2000)
    said, servers = [], cluster.servers

    def handle(error):  # it travels to the workers, too: the client is made when it is needed
        said.append(str(error))
        if len(said) == 2:
            log = KafkaLog(servers, timeout=30)
            log.admin.alter_configs(out, {"max.message.bytes": "1000000"})
            log.close()
        return "retry"

    builder = StreamsBuilder()
    builder.stream(lines, **TEXT).map_values(lambda value: value * 100).to(out, **TEXT)
    driven = start(builder, on_production_error=handle)
    cluster.send(lines, ("a", "small", START), ("a", "x" * 50, START), ("a", "small", START))
    driven.drain()
    assert len(said) == 2
    assert [len(value) for _, value in cluster.texts(out)] == [500, 5000, 500]
    assert driven.loop.totals.retries >= 2
