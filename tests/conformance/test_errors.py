"""Records that cannot be handled go where they go in Kafka Streams, and everything else goes on as it does there.

The policies are Kafka's handlers (`oracle.handlers`). Compared are all topics, the dead letters among them: key, value,
timestamp, headers. Only the exception's class, message and stack trace differ by nature.
"""

from typing import Any

import oracle
import pytest
from compare import Both, Run, assert_equal, run_both
from sequences import assert_changelogs_equal, scripts

from penstock import JoinWindows, SessionWindows, SlidingWindows, Stores, TimestampExtractor, TimeWindows
from penstock.errors import DeserializationError, PenstockError, ProcessingError, SerializationError, TimestampError
from penstock.processor import FixedKeyProcessor, Processor, PunctuationType
from penstock.record import Record
from penstock.serde import Serde, Serdes

TEXT = {"key": Serdes.string, "value": Serdes.string}
INPUTS = dict.fromkeys(("in", "other"), (Serdes.string, Serdes.string))
DEAD = {"dead_letter_topic": "dead"}
HEADER = "__streams.errors."
BY_NATURE = {f"{HEADER}exception", f"{HEADER}message", f"{HEADER}stacktrace"}


class Bad(Exception):
    """What the functions of these tests raise."""


def fussy(value: Any) -> Any:
    """Return the value, unless it is a bad one."""
    if value in ("t", "u"):
        raise Bad(f"not {value}")
    return value


def fussy_pair(key: Any, value: Any) -> Any:
    return key, fussy(value)


def is_good(key: Any, value: Any) -> bool:
    return fussy(value) is not None


def masked(run: Run) -> Run:
    """Leave out what differs by nature; the names of the headers and their order stay."""
    run.output["dead"] = [
        (key, value, timestamp, tuple((name, b"*" if name in BY_NATURE else text) for name, text in headers))
        for key, value, timestamp, headers in run.output.get("dead", ())
    ]
    return run


def check(
    topology: Any, script: Any, *, inputs: Any = INPUTS, compacted: bool = True, headers: bool = True, **config: Any
) -> Both:
    """Run both under policies and compare everything."""
    both = run_both(topology, script, inputs=inputs, config={**DEAD, **config})
    again = both.again
    both = Both(masked(both.kafka), masked(both.penstock), both.script, lambda steps: tuple(map(masked, again(steps))))
    assert_equal(both, changelogs=False, headers=headers)
    assert_changelogs_equal(both, compacted)
    return both


def letters(both: Both) -> list[Any]:
    return both.penstock.output["dead"]


# --- failures in a node ---------------------------------------------------------------------------------------------


class Changeable(Processor):
    """Puts, forwards, then may fail: what was done before stays done."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.store("rows")

    def process(self, record: Any) -> None:
        self.store.put(record.key or "none", record.value)
        self.context.forward(record.with_value("before"))
        self.context.forward(record.with_value(fussy(record.value)).with_timestamp(record.timestamp + 1))


class FussyValues(FixedKeyProcessor):
    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(fussy(record.value)))


class FussyTransformer:
    def transform(self, key: Any, value: Any) -> Any:
        return fussy(value)


def appended(key: Any, value: Any, aggregate: str) -> str:
    return aggregate + str(fussy(value))


def joined(value: Any, other: Any) -> str:
    return f"{fussy(value)}+{fussy(other)}"


def stream(builder: Any, topic: str = "in") -> Any:
    return builder.stream(topic, **TEXT)


def table(builder: Any, topic: str = "in", **options: Any) -> Any:
    return builder.table(topic, **TEXT, store=Stores.key_value(f"{topic}-rows", **TEXT, **options))


def to_out(result: Any) -> None:
    result.to("out", **TEXT)


def counts_by_window(builder: Any) -> None:
    windows = stream(builder).group_by_key(**TEXT).windowed_by(TimeWindows(5, grace=2))
    result = windows.aggregate(str, appended, store=Stores.window("windows", 7, 5, **TEXT))
    to_out(result.to_stream(key=lambda window, _: f"{window.key}@{window.start}"))


def process(builder: Any) -> None:
    builder.add_state_store(Stores.key_value("rows", **TEXT))
    to_out(stream(builder).process(Changeable, stores=["rows"]).map_values(lambda value: value))


def joined_if_matched(value: Any, other: Any) -> str:
    return f"{value}+{other}" if value is None or other is None else joined(value, other)


def outer_join(builder: Any) -> None:
    """A joiner that raises on matches only; see differences.md for one that raises on an unmatched row."""
    left, right = stream(builder), stream(builder, "other")
    to_out(left.outer_join(right, joined_if_matched, window=JoinWindows(5, grace=2), **TEXT, other_value=Serdes.string))


def sessions(builder: Any) -> None:
    windows = stream(builder).group_by_key(**TEXT).windowed_by(SessionWindows(5, grace=2))
    kept = Stores.session("sessions", 10**7, **TEXT)
    result = windows.aggregate(str, appended, merger=lambda key, one, other: joined(one[-1:], other[-1:]), store=kept)
    to_out(result.to_stream(key=lambda window, _: f"{window.key}@{window.start}-{window.end}"))


def sliding(builder: Any) -> None:
    windows = stream(builder).group_by_key(**TEXT).windowed_by(SlidingWindows(5, grace=2))
    result = windows.aggregate(str, appended, store=Stores.window("windows", 10**7, 5, **TEXT))
    to_out(result.to_stream(key=lambda window, _: f"{window.key}@{window.start}"))


def grouped_table(builder: Any) -> None:
    grouped = table(builder).group_by(lambda key, value: (fussy(value), value), **TEXT)
    to_out(
        grouped.aggregate(
            str, appended, lambda key, value, agg: agg + "-", store=Stores.key_value("agg", **TEXT)
        ).to_stream()
    )


NODES: dict[str, Any] = {
    "map": lambda builder: to_out(stream(builder).map(fussy_pair)),
    "map of null": lambda builder: to_out(
        stream(builder).map(lambda key, value: None if value == "t" else (key, value))
    ),
    "flat_map": lambda builder: to_out(
        stream(builder).flat_map(lambda key, value: [(key, "first"), fussy_pair(key, value)])
    ),
    "flat_map of null": lambda builder: to_out(
        stream(builder).flat_map(lambda key, value: None if value == "t" else [(key, value)] * 2)
    ),
    "map_values": lambda builder: to_out(stream(builder).map_values(fussy)),
    "flat_map_values": lambda builder: to_out(stream(builder).flat_map_values(lambda value: ["first", fussy(value)])),
    "filter": lambda builder: to_out(stream(builder).filter(is_good)),
    "select_key": lambda builder: to_out(stream(builder).select_key(lambda key, value: fussy(value))),
    "peek": lambda builder: to_out(stream(builder).peek(lambda key, value: fussy(value))),
    "split": lambda builder: to_out(stream(builder).split().branch(is_good, name="good").no_default().popitem()[1]),
    "process": process,
    "process_values": lambda builder: to_out(stream(builder).process_values(FussyValues)),
    "aggregate": lambda builder: to_out(
        stream(builder).group_by_key(**TEXT).aggregate(str, appended, store=Stores.key_value("agg", **TEXT)).to_stream()
    ),
    "reduce": lambda builder: to_out(
        stream(builder).group_by_key(**TEXT).reduce(joined, store=Stores.key_value("agg", **TEXT)).to_stream()
    ),
    "group_by": lambda builder: to_out(
        stream(builder).group_by(lambda key, value: fussy(value), **TEXT).reduce(joined, store="agg").to_stream()
    ),
    "windows": counts_by_window,
    "sliding windows": sliding,
    "sessions": sessions,
    "grouped table": grouped_table,
    "table filter": lambda builder: to_out(table(builder).filter(is_good).to_stream()),
    "table map_values": lambda builder: to_out(table(builder).map_values(fussy).to_stream()),
    "transform_values": lambda builder: to_out(table(builder).transform_values(FussyTransformer).to_stream()),
    "stream-table join": lambda builder: to_out(stream(builder).left_join(table(builder, "other"), joined)),
    "table-table join": lambda builder: to_out(table(builder).outer_join(table(builder, "other"), joined).to_stream()),
    "stream-stream join": lambda builder: to_out(
        stream(builder).join(stream(builder, "other"), joined, window=JoinWindows(5, grace=2), **TEXT)
    ),
    "outer join": outer_join,
    "foreign-key join": lambda builder: to_out(
        table(builder).left_join(table(builder, "other"), joined, foreign_key=fussy).to_stream()
    ),
}
POLICIES = ["skip", "dead_letter"]


@pytest.mark.capability("ER2", "ER4")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", NODES)
def test_a_node_that_raises(name: str, policy: str) -> None:
    topics = ("in", "other") if "join" in name else ("in",)
    failed = 0
    for script in scripts(f"errors {name}", (1, 5), topics=topics, values="sstuv", count=8):
        # what time gives out has no headers (docs/differences.md)
        seen = check(NODES[name], script, headers=name != "outer join", on_processing_error=policy)
        failed += len(letters(seen))
    assert failed > 0 or policy == "skip"


@pytest.mark.capability("ER2")
@pytest.mark.parametrize("name", ["map", "process", "aggregate", "table-table join"])
def test_the_default_fails_at_the_same_record(name: str) -> None:
    both = check(NODES[name], [("in", "a", "s", 1), ("in", "a", "t", 2), ("in", "a", "v", 3)])
    assert both.penstock.failed == 1
    assert isinstance(both.penstock.error, ProcessingError)


@pytest.mark.capability("ER2", "ER4")
@pytest.mark.parametrize("policy", POLICIES)
def test_only_the_innermost_failing_node_is_skipped(policy: str) -> None:
    def topology(builder: Any) -> None:
        source = stream(builder).map_values(lambda value: value)
        source.map_values(fussy).to("first", **TEXT)
        middle = source.map_values(lambda value: value)
        middle.peek(lambda key, value: fussy(value)).to("second", **TEXT)
        middle.to("third", **TEXT)

    # Kafka's letters are empty once a record was sent: the failing branches come before those that send
    script = [("in", "a", "s", 1), ("in", "b", "t", 5, (("h", b"1"),)), ("in", None, "u", 3), ("in", "c", "v", 7)]
    both = check(topology, script, on_processing_error=policy)
    assert [value for _, value, _, _ in both.penstock.output["third"]] == [b"s", b"t", b"u", b"v"]
    assert len(letters(both)) == (4 if policy == "dead_letter" else 0)


@pytest.mark.capability("ER5")
def test_a_letter_after_another_branch_has_sent_is_as_kafkas_but_not_empty() -> None:
    def topology(builder: Any) -> None:
        source = stream(builder)
        source.to("sent", **TEXT)
        source.map_values(fussy).to("out", **TEXT)

    both = run_both(
        topology, [("in", "a", "t", 5)], inputs=INPUTS, config={**DEAD, "on_processing_error": "dead_letter"}
    )
    (kafkas,), (ours,) = masked(both.kafka).output["dead"], masked(both.penstock).output["dead"]
    assert kafkas[:2] == (None, None)
    assert ours[:2] == (b"a", b"t")
    assert ours[2:] == kafkas[2:]


@pytest.mark.capability("ER4")
def test_a_letter_has_the_time_and_headers_that_the_nodes_before_gave_the_record() -> None:
    class Changes(Processor):
        def process(self, record: Any) -> None:
            self.context.forward(
                record.with_timestamp(record.timestamp + 10).with_headers((("new", b"2"), ("h", None)))
            )

    both = check(
        lambda builder: to_out(stream(builder).process(Changes).map_values(fussy)),
        [("in", "a", "t", 5, (("h", b"1"),))],
        on_processing_error="dead_letter",
    )
    ((key, value, timestamp, headers),) = letters(both)
    assert (key, value, timestamp) == (b"a", b"t", 15)
    assert headers[:2] == (("new", b"2"), ("h", None))
    assert dict(headers)[f"{HEADER}topic"] == b"in"


@pytest.mark.capability("ER2", "ER4")
@pytest.mark.parametrize("policy", POLICIES)
def test_a_letter_from_behind_a_repartition_topic_is_the_source_record(policy: str) -> None:
    def topology(builder: Any) -> None:
        to_out(stream(builder).select_key(lambda key, value: value).repartition(**TEXT).map_values(fussy))

    both = run_both(
        topology,
        [("in", "a", "s", 1), ("in", "a", "t", 5)],
        inputs=INPUTS,
        config={**DEAD, "on_processing_error": policy},
    )
    assert masked(both.penstock).output["out"] == masked(both.kafka).output["out"]
    if policy == "dead_letter":
        (kafkas,), (ours,) = both.kafka.output["dead"], both.penstock.output["dead"]
        assert kafkas[:2] == (b"t", b"t")  # of the repartition topic
        assert ours[:2] == (b"a", b"t")  # of the source topic
        assert ours[2] == kafkas[2] == 5


# --- punctuation and caches -----------------------------------------------------------------------------------------


class Punctual(Processor):
    """Fails in every second punctuation; what it forwards may fail below it."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.calls = 0
        context.schedule(5, PunctuationType.STREAM_TIME, lambda at: self.punctuate("stream", at))
        context.schedule(7, PunctuationType.WALL_CLOCK_TIME, lambda at: self.punctuate("wall", at))

    def process(self, record: Any) -> None:
        self.context.forward(record)

    def punctuate(self, what: str, at: int) -> None:
        self.calls += 1
        self.context.forward(Record(what, "t" if self.calls % 3 == 0 else str(at), at))
        if self.calls % 2:
            raise Bad("not now")


@pytest.mark.capability("ER2", "ER4", "PA12")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("below", ["a sink", "a fussy node"])
def test_a_punctuator_that_raises(policy: str, below: str) -> None:
    def topology(builder: Any) -> None:
        result = stream(builder).process(Punctual)
        to_out(result if below == "a sink" else result.map_values(fussy))

    steps = [("in", "a", "s", 0), ("in", "a", "s", 6), ("wall_clock", 8), ("in", "b", "v", 12), ("wall_clock", 30)]
    both = check(topology, [*steps, ("in", "c", "s", 31)], on_processing_error=policy)
    assert both.penstock.failed is None
    if policy == "dead_letter":
        assert {dict(headers)[f"{HEADER}offset"] for *_, headers in letters(both)} >= {b"-1"}


@pytest.mark.capability("ER2", "ER4", "ST7")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["table", "aggregate", "windows"])
def test_a_node_that_raises_while_a_cache_forwards(kind: str, policy: str) -> None:
    def topology(builder: Any) -> None:
        if kind == "table":
            result = table(builder, cached=True)
        elif kind == "aggregate":
            kept = Stores.key_value("agg", cached=True, **TEXT)
            result = stream(builder).group_by_key(**TEXT).reduce(lambda old, new: new, store=kept)
        else:
            kept = Stores.window("agg", 10**7, 5, cached=True, **TEXT)
            windows = stream(builder).group_by_key(**TEXT).windowed_by(TimeWindows(5, grace=2))
            result = windows.reduce(lambda old, new: new, store=kept)
        below = result.to_stream(key=lambda key, value: str(getattr(key, "key", key)))
        below.map_values(fussy).to("out", **TEXT)
        below.map_values(lambda value: value).to("sent", **TEXT)

    for script in scripts(f"cache {kind}", (1, 5), values="sstuv", count=8):
        check(topology, script, on_processing_error=policy)


# --- bytes, timestamps, results -------------------------------------------------------------------------------------


@pytest.mark.capability("ER1", "ER4")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("part", ["key", "value"])
def test_bytes_that_a_serde_refuses(part: str, policy: str) -> None:
    def topology(builder: Any) -> None:
        numbers = {**TEXT, part: Serdes.int64}
        builder.stream("in", **numbers).to("out", **numbers)

    good, bad = (7).to_bytes(8, "big"), b"bad"
    rows = [(raw, b"v") if part == "key" else (b"k", raw) for raw in (good, bad, bad, good)]
    script = [("in", *row, at, (("h", b"1"),)) for at, row in enumerate(rows, 5)]
    both = check(topology, script, inputs={}, on_deserialization_error=policy)
    assert len(both.penstock.output["out"]) == 2
    assert len(letters(both)) == (2 if policy == "dead_letter" else 0)


@pytest.mark.capability("ER1")
def test_bytes_that_a_serde_refuses_fail_by_default() -> None:
    def topology(builder: Any) -> None:
        builder.stream("in", key=Serdes.string, value=Serdes.int64).to("out", key=Serdes.string, value=Serdes.int64)

    both = check(topology, [("in", b"k", b"bad", 1)], inputs={})
    assert both.penstock.failed == 0
    assert isinstance(both.penstock.error, DeserializationError)


@pytest.mark.capability("ER1")
@pytest.mark.parametrize("policy", ["fail", *POLICIES])
def test_a_timestamp_extractor_that_raises_is_fatal_whatever_the_policies(policy: str) -> None:
    def topology(builder: Any) -> None:
        to_out(builder.stream("in", **TEXT, timestamp=lambda record: fussy(record.value) and 5))

    policies = {"on_deserialization_error": policy, "on_processing_error": policy}
    both = check(topology, [("in", "a", "s", 1), ("in", "a", "t", 2)], **policies)
    assert both.penstock.failed == 1
    assert isinstance(both.penstock.error, TimestampError)


@pytest.mark.capability("ER1")
@pytest.mark.parametrize("policy", ["fail", *POLICIES])
@pytest.mark.parametrize("extractor", ["negative", "skip", "partition time"])
def test_negative_timestamps(extractor: str, policy: str) -> None:
    choices = {
        "negative": lambda record, partition_time: int(record.value),
        "skip": TimestampExtractor.skip_on_invalid,
        "partition time": TimestampExtractor.partition_time_on_invalid,
    }

    def topology(builder: Any) -> None:
        to_out(builder.stream("in", **TEXT, timestamp=choices[extractor]))

    times = (5, -1, 7, -3)
    script = [("in", "a", str(at), at if extractor == "negative" and at >= 0 else max(at, 0)) for at in times]
    both = check(topology, script, on_deserialization_error=policy, on_processing_error=policy)
    assert not letters(both)


def _refuse_bad(value: Any) -> bytes:
    return bytes(fussy(value), "utf-8")


FUSSY_SERDE: Serde[str] = Serde(_refuse_bad, lambda data: data.decode())


@pytest.mark.capability("ER3", "ER4")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("where", ["sink", "repartition"])
def test_a_result_that_cannot_be_serialized(where: str, part: str, policy: str) -> None:
    serdes = {**TEXT, part: FUSSY_SERDE}

    def topology(builder: Any) -> None:
        source = stream(builder)
        result = source.map(lambda key, value: (value, value))
        if where == "sink":
            result.to("out", **serdes)
        else:
            to_out(result.repartition(**serdes))
        source.map_values(lambda value: value).to("copies", **TEXT)

    script = [("in", "a", "s", 1), ("in", "b", "t", 5, (("h", b"1"),)), ("in", "c", "v", 7)]
    both = check(topology, script, on_production_error=policy)
    assert len(both.penstock.output["copies"]) == 3
    assert len(letters(both)) == (1 if policy == "dead_letter" else 0)


@pytest.mark.capability("ER3")
def test_a_result_that_cannot_be_serialized_fails_by_default() -> None:
    both = check(lambda builder: stream(builder).to("out", key=Serdes.string, value=FUSSY_SERDE), [("in", "a", "t", 1)])
    assert both.penstock.failed == 0
    assert isinstance(both.penstock.error, SerializationError)


@pytest.mark.capability("ER2", "ER3", "ER4")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cause", ["serializer", "topic extractor", "partitioner"])
def test_a_sink_that_fails_is_judged_at_the_node_before_it(cause: str, policy: str) -> None:
    """The production policy says fail, so the processing policy is asked; what comes behind the sink is skipped with it."""

    def topology(builder: Any) -> None:
        source = stream(builder).map_values(lambda value: value)
        source.to("before", **TEXT)
        to_fussy_sink(source, cause)
        source.to("behind", **TEXT)

    script = [("in", "a", "s", 1), ("in", "b", "t", 5), ("in", "c", "v", 7)]
    both = run_both(topology, script, inputs=INPUTS, config={**DEAD, "on_processing_error": policy})
    without_raw(both)
    if cause == "serializer" and policy == "dead_letter":  # Kafka's default production handler writes one, then fails
        assert len(both.kafka.output["dead"]) == 2
        del both.kafka.output["dead"][0]
    assert_equal(both, describe=cause != "topic extractor")
    assert [len(both.penstock.output[topic]) for topic in ("before", "out", "behind")] == [3, 2, 2]


@pytest.mark.capability("ER2", "ER3")
@pytest.mark.parametrize("cause", ["serializer", "topic extractor", "partitioner"])
def test_a_sink_that_fails_right_below_a_source_is_judged_by_nobody(cause: str) -> None:
    both = run_both(
        lambda builder: to_fussy_sink(stream(builder), cause),
        [("in", "a", "s", 1), ("in", "b", "t", 5)],
        inputs=INPUTS,
        config={"on_processing_error": "skip"},
    )
    assert_equal(both, describe=cause != "topic extractor")
    assert both.penstock.failed == 1


def to_fussy_sink(source: Any, cause: str) -> None:
    if cause == "serializer":
        source.to("out", key=Serdes.string, value=FUSSY_SERDE)
    elif cause == "topic extractor":
        source.to(lambda key, value, context: "out" if fussy(value) else "none", **TEXT)
    else:
        source.to("out", **TEXT, partitioner=lambda topic, key, value, partitions: 0 if fussy(value) else None)


def without_raw(both: Both) -> None:
    """Leave out the raw bytes as well: Kafka has none after a record was sent (ER5)."""
    for run in (both.kafka, both.penstock):
        run.output["dead"] = [(None, None, *rest) for _, _, *rest in masked(run).output["dead"]]


# --- functions as policies ------------------------------------------------------------------------------------------


@pytest.mark.capability("ER8", "ER1", "ER2", "ER3")
def test_a_function_decides_and_is_told_the_same() -> None:
    """Node, coordinates, time, headers and raw bytes of the failure, and the record that the node was given."""
    told: dict[str, list[Any]] = {"kafka": [], "penstock": []}
    side = ["kafka"]

    def decide(origin: Any, record: Any, exception: Any) -> str:
        seen = None if record is None else (record.key, record.value, record.timestamp, record.headers)
        told[side[0]].append((*origin[:3], origin.key, origin.value, seen, type(exception).__name__))
        return {"t": "skip", "u": "dead_letter"}.get(record.value if record else "u", "fail")

    def topology(builder: Any) -> None:
        side[0] = "kafka" if isinstance(builder, oracle.StreamsBuilder) else "penstock"
        to_out(stream(builder).select_key(lambda key, value: "new").map_values(fussy))

    script = [("in", "a", "s", 1), ("in", "b", "t", 5, (("h", b"1"),)), ("in", "c", "u", 7), ("in", "d", "v", 8)]
    both = check(topology, script, on_processing_error=decide)
    assert [key for key, *_ in letters(both)] == [b"c"]
    assert told["penstock"] == told["kafka"]
    assert told["penstock"][0] == ("in", 0, 1, b"b", b"t", ("new", "t", 5, (("h", b"1"),)), "Bad")


@pytest.mark.capability("ER8")
@pytest.mark.parametrize("setting", ["on_processing_error", "on_production_error"])
def test_a_function_is_told_the_node(setting: str) -> None:
    nodes: list[str] = []

    def decide(error: PenstockError) -> str:
        nodes.append(error.node)
        return "skip"

    def topology(builder: Any) -> None:
        result = stream(builder).map_values(
            fussy if setting == "on_processing_error" else lambda value: value, name="map"
        )
        result.to("out", key=Serdes.string, value=FUSSY_SERDE, name="sink")

    check(topology, [("in", "a", "t", 1), ("in", "a", "s", 2)], **{setting: decide})
    assert nodes == ["map" if setting == "on_processing_error" else "sink"] * 2


@pytest.mark.capability("ER8", "ER1")
def test_a_function_decides_about_bytes() -> None:
    def topology(builder: Any) -> None:
        builder.stream("in", key=Serdes.string, value=Serdes.int64).to("out", key=Serdes.string, value=Serdes.int64)

    def decide(error: Any) -> str:
        return "dead_letter" if error.origin.value == b"letter" else "skip"

    both = check(
        topology,
        [("in", b"a", b"letter", 1), ("in", b"a", b"other", 2), ("in", b"a", bytes(8), 3)],
        inputs={},
        on_deserialization_error=decide,
    )
    assert [value for _, value, *_ in letters(both)] == [b"letter"]
    assert len(both.penstock.output["out"]) == 1


@pytest.mark.capability("ER2")
def test_a_function_that_raises_fails() -> None:
    def decide(error: Any) -> str:
        raise Bad("the handler itself")

    both = check(
        lambda builder: to_out(stream(builder).map_values(fussy)), [("in", "a", "t", 1)], on_processing_error=decide
    )
    assert both.penstock.failed == 0
