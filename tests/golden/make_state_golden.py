"""Write state.json: bytes of stores and changelogs as the Java classes of Kafka Streams 4.3.1 make them.

    python tests/golden/make_state_golden.py [folder of jars]

Run by hand; the tests need no JVM. Bytes are hex, null is null.

formats      name: [{arguments, hex}]     one call of the Java serializer each
changelogs   name: {input, rows}          what a topology wrote to a changelog; input rows [key, value, timestamp] (or
                                          with the topic in front), changelog rows [key, value, timestamp, headers]
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import jpype
import jpype.imports

COORDINATES = ["org.apache.kafka:kafka-streams:4.3.1", "org.apache.kafka:kafka-streams-test-utils:4.3.1"]
OUT = Path(__file__).with_name("state.json")
LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
KEYS = [b"", b"k", b"\x00", b"\xff\x00\x01", "grün".encode()]
TIMES = [0, 1, 1_700_000_000_000, LONG_MAX]
SEQUENCES = [0, 1, 2**31 - 1]
VALUES: list[bytes | None] = [None, b"", b"v", bytes(range(20))]
CONTEXTS: list[tuple[int, int, str, int, list[tuple[str, bytes | None]]]] = [
    (0, 0, "t", 0, []),
    (1_700_000_000_000, 42, "thème", 3, [("a", b"1"), ("a", None), ("é", b"")]),
    (-1, -1, "", -1, []),
]
INTERNALS = "org.apache.kafka.streams.state.internals."


def jars() -> list[Path]:
    if len(sys.argv) > 1:
        return sorted(Path(sys.argv[1]).glob("*.jar"))
    from penstock.dev.jars import resolve

    return resolve(COORDINATES)


def java_bytes(data: bytes | None) -> Any:
    return None if data is None else jpype.JArray(jpype.JByte)(data)


def python_bytes(data: Any) -> bytes | None:
    return None if data is None else bytes(b & 0xFF for b in data)


def hexed(data: Any) -> str | None:
    found = python_bytes(data)
    return None if found is None else found.hex()


def show(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def wrapped(data: bytes) -> Any:
    return jpype.JClass("org.apache.kafka.common.utils.Bytes").wrap(java_bytes(data))


def make(name: str, *arguments: Any) -> Any:
    """Call the only constructor of a class that Java would not let us call."""
    (constructor,) = (
        c for c in jpype.JClass(name).class_.getDeclaredConstructors() if c.getParameterCount() == len(arguments)
    )
    constructor.setAccessible(True)
    return constructor.newInstance(jpype.JArray(jpype.java.lang.Object)(arguments))


def call(target: Any, method: str, *arguments: Any) -> Any:
    (found,) = (
        m
        for m in target.getClass().getDeclaredMethods()
        if m.getName() == method and m.getParameterCount() == len(arguments)
    )
    found.setAccessible(True)
    return found.invoke(target, jpype.JArray(jpype.java.lang.Object)(arguments))


def headers_of(pairs: list[tuple[str, bytes | None]]) -> Any:
    headers = jpype.JClass("org.apache.kafka.common.header.internals.RecordHeaders")()
    for name, value in pairs:
        headers.add(name, java_bytes(value))
    return headers


def context_of(context: tuple[int, int, str, int, list[tuple[str, bytes | None]]]) -> Any:
    timestamp, offset, topic, partition, pairs = context
    made = jpype.JClass("org.apache.kafka.streams.processor.internals.ProcessorRecordContext")
    return made(timestamp, offset, partition, topic, headers_of(pairs))


def formats() -> dict[str, list[dict[str, Any]]]:
    serdes = jpype.JClass("org.apache.kafka.common.serialization.Serdes")
    window = jpype.JClass(INTERNALS + "WindowKeySchema").toStoreKeyBinary
    session = jpype.JClass(INTERNALS + "SessionKeySchema").toBinary
    grace = jpype.JClass(INTERNALS + "PrefixedWindowKeySchemas$TimeFirstWindowKeySchema").toStoreKeyBinary
    none = headers_of([])
    found: dict[str, list[dict[str, Any]]] = {}

    def add(name: str, data: Any, **arguments: Any) -> None:
        found.setdefault(name, []).append({**arguments, "hex": hexed(data)})

    for key in KEYS:
        for time in TIMES:
            for sequence in SEQUENCES:
                arguments = {"key": key.hex(), "start": time, "sequence": sequence}
                add("window_key", window(wrapped(key), jpype.JLong(time), jpype.JInt(sequence)).get(), **arguments)
                add("grace_key", grace(wrapped(key), jpype.JLong(time), jpype.JInt(sequence)).get(), **arguments)
            for end in (time, LONG_MAX):
                data = session(wrapped(key), jpype.JLong(time), jpype.JLong(end)).get()
                add("session_key", data, key=key.hex(), start=time, end=end)
            joined = jpype.JClass(INTERNALS + "TimestampedKeyAndJoinSide")
            side_serde = jpype.JClass(INTERNALS + "TimestampedKeyAndJoinSideSerde")(serdes.ByteArray()).serializer()
            for left in (True, False):
                side = (joined.makeLeft if left else joined.makeRight)(java_bytes(key), jpype.JLong(time))
                add("join_side_key", side_serde.serialize("t", none, side), timestamp=time, left=left, key=key.hex())
    either = jpype.JClass(INTERNALS + "LeftOrRightValue")
    either_serde = jpype.JClass(INTERNALS + "LeftOrRightValueSerde")(
        serdes.ByteArray(), serdes.ByteArray()
    ).serializer()
    stamped = jpype.JClass(INTERNALS + "ValueAndTimestampSerde")(serdes.ByteArray()).serializer()
    make_stamped = jpype.JClass("org.apache.kafka.streams.state.ValueAndTimestamp").make
    for value in VALUES[1:]:
        assert value is not None
        for left in (True, False):
            made = (either.makeLeftValue if left else either.makeRightValue)(java_bytes(value))
            add("join_side_value", either_serde.serialize("t", none, made), left=left, value=value.hex())
        for time in TIMES:
            data = stamped.serialize("t", none, make_stamped(java_bytes(value), jpype.JLong(time)))
            add("timestamped", data, value=value.hex(), timestamp=time)
    lists = serdes.ListSerde(jpype.JClass("java.util.ArrayList").class_, serdes.ByteArray()).serializer()
    for items in ([], [b"v"], [b"", b"a", None, b"bc"]):
        java_list = jpype.JClass("java.util.ArrayList")()
        for item in items:
            java_list.add(java_bytes(item))
        add("list", lists.serialize("t", java_list), items=[show(item) for item in items])
    for context in CONTEXTS:
        pairs = [[name, show(value)] for name, value in context[4]]
        for prior in VALUES:
            for old in VALUES:
                for new in VALUES[::2]:
                    value_class = INTERNALS + "BufferValue"
                    row = make(value_class, java_bytes(prior), java_bytes(old), java_bytes(new), context_of(context))
                    buffer = call(row, "serialize", jpype.java.lang.Integer(8))
                    buffer.putLong(7)
                    shown = {"prior": show(prior), "old": show(old), "new": show(new)}
                    add("buffer_row", buffer.array(), context=[*context[:4], pairs], **shown, time=7)
    return found


class Run:
    """A topology in Kafka's test driver, and what it wrote to its changelogs."""

    def __init__(self, builder: Any) -> None:
        properties = jpype.JClass("java.util.Properties")()
        properties.put("application.id", "app")
        properties.put("bootstrap.servers", "nowhere:1")
        self.folder = tempfile.TemporaryDirectory()
        properties.put("state.dir", self.folder.name)
        for kind in ("key", "value"):
            properties.put(f"default.{kind}.serde", "org.apache.kafka.common.serialization.Serdes$StringSerde")
        properties.put("statestore.cache.max.bytes", "0")
        self.driver = jpype.JClass("org.apache.kafka.streams.TopologyTestDriver")(builder.build(), properties)
        self.string = jpype.JClass("org.apache.kafka.common.serialization.StringSerializer")

    def pipe(self, topic: str, key: str, value: str | None, timestamp: int) -> None:
        self.driver.createInputTopic(topic, self.string(), self.string()).pipeInput(key, value, jpype.JLong(timestamp))

    def changelog(self, topic: str) -> list[list[Any]]:
        raw = jpype.JClass("org.apache.kafka.common.serialization.ByteArrayDeserializer")
        rows = []
        for record in self.driver.createOutputTopic(topic, raw(), raw()).readRecordsToList():
            headers = [[str(h.key()), hexed(h.value())] for h in record.headers()]
            timestamp = record.timestamp()  # null: the broker's clock
            rows.append(
                [hexed(record.key()), hexed(record.value()), None if timestamp is None else int(timestamp), headers]
            )
        return rows


def changelogs() -> dict[str, Any]:
    streams = "org.apache.kafka.streams."
    kstream = streams + "kstream."
    serdes = jpype.JClass("org.apache.kafka.common.serialization.Serdes")
    duration = jpype.JClass("java.time.Duration").ofMillis
    consumed = jpype.JClass(kstream + "Consumed")
    windows = jpype.JClass(kstream + "TimeWindows").ofSizeAndGrace(duration(10_000), duration(60_000))
    both = consumed.with_(serdes.String(), serdes.String())
    materialized = jpype.JClass(kstream + "Materialized")
    suppressed = jpype.JClass(kstream + "Suppressed")
    buffer = jpype.JClass(kstream + "Suppressed$BufferConfig")
    joiner = jpype.JProxy(kstream + "ValueJoiner", dict={"apply": lambda left, right: f"{left}+{right}"})
    found: dict[str, Any] = {}
    lines = [
        ["a", "1", 0],
        ["b", "2", 5_000],
        ["a", "3", 9_999],
        ["a", "4", 10_000],
        ["a", "5", 3_000],
        ["b", "6", 90_000],
    ]
    lines += [["a", "7", 25_000]]

    builder = jpype.JClass(streams + "StreamsBuilder")()
    builder.stream("in", both).groupByKey().windowedBy(windows).count(materialized.as_("counts"))
    run = Run(builder)
    for line in lines:
        run.pipe("in", *line)
    found["window_count"] = {"input": lines, "rows": run.changelog("app-counts-changelog")}
    run.driver.close()

    builder = jpype.JClass(streams + "StreamsBuilder")()
    sessions = jpype.JClass(kstream + "SessionWindows").ofInactivityGapAndGrace(duration(5_000), duration(60_000))
    builder.stream("in", both).groupByKey().windowedBy(sessions).count(materialized.as_("counts"))
    run = Run(builder)
    for line in lines:
        run.pipe("in", *line)
    found["session_count"] = {"input": lines, "rows": run.changelog("app-counts-changelog")}
    run.driver.close()

    builder = jpype.JClass(streams + "StreamsBuilder")()
    join_windows = jpype.JClass(kstream + "JoinWindows").ofTimeDifferenceAndGrace(duration(1_000), duration(1_000))
    joined = (
        jpype.JClass(kstream + "StreamJoined")
        .with_(serdes.String(), serdes.String(), serdes.String())
        .withStoreName("j")
    )
    builder.stream("left", both).outerJoin(builder.stream("right", both), joiner, join_windows, joined).to("out")
    run = Run(builder)
    pairs = [["left", "a", "L1", 100], ["left", "a", "L2", 100], ["right", "b", "R1", 200], ["left", "b", "L3", 300]]
    pairs += [
        ["right", "a", "R2", 900],
        ["left", "c", "L4", 10_000],
        ["right", "c", "R3", 20_000],
        ["right", "c", "R4", 19_900],
    ]
    for pair in pairs:
        run.pipe(*pair)
    for store in ("j-outer-this-join-store", "j-outer-other-join-store", "j-outer-shared-join-store"):
        found[store] = {"input": pairs, "rows": run.changelog(f"app-{store}-changelog")}
    run.driver.close()

    builder = jpype.JClass(streams + "StreamsBuilder")()
    counts = builder.stream("in", both).groupByKey().windowedBy(windows).count(materialized.as_("counts"))
    counts.suppress(suppressed.untilWindowCloses(buffer.unbounded()).withName("sup")).toStream().foreach(
        jpype.JProxy(kstream + "ForeachAction", dict={"apply": lambda key, value: None})
    )
    run = Run(builder)
    for line in lines:
        run.pipe("in", *line)
    found["suppress"] = {"input": lines, "rows": run.changelog("app-sup-store-changelog")}
    run.driver.close()

    builder = jpype.JClass(streams + "StreamsBuilder")()
    stores = jpype.JClass(streams + "state.Stores")
    kept = materialized.as_(stores.persistentVersionedKeyValueStore("table", duration(100_000)))
    table = builder.table("table", both, kept.withKeySerde(serdes.String()).withValueSerde(serdes.String()))
    with_grace = jpype.JClass(kstream + "Joined").with_(
        serdes.String(), serdes.String(), serdes.String(), "grace", duration(2_000)
    )
    builder.stream("in", both).join(table, joiner, with_grace).to("out")
    run = Run(builder)
    run.pipe("table", "a", "T", 0)
    for line in lines:
        run.pipe("in", *line)
    found["grace_join"] = {"input": lines, "rows": run.changelog("app-grace-Buffer-changelog")}
    run.driver.close()
    return found


def main() -> None:
    jpype.startJVM(classpath=[str(jar) for jar in jars()])
    OUT.write_text(json.dumps({"formats": formats(), "changelogs": changelogs()}, indent=0, ensure_ascii=True) + "\n")
    print({name: len(rows) for name, rows in json.loads(OUT.read_text())["formats"].items()})
    for name, log in json.loads(OUT.read_text())["changelogs"].items():
        print(name, len(log["rows"]))


if __name__ == "__main__":
    main()
