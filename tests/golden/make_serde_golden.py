"""Write serde.json: what the Java classes of Kafka 4.3.1 write, read and refuse. Run by hand; the tests need no JVM.

    python tests/golden/make_serde_golden.py [folder of jars]

writes    serde, value, hex            Java turned the value into these bytes
reads     serde, hex, value            Java turned these bytes into the value
refuses   serde, hex                   Java raised on these bytes
hashes    hex, murmur2, murmur3, partitions: {count: partition}

Values are plain JSON: floats as `float.hex()`, bytes as hex, a windowed key as [key, start, end], a change as
[new, old, is_latest], the wrappers as lists of their fields in order.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jpype

COORDINATES = ["org.apache.kafka:kafka-streams:4.3.1", "org.apache.kafka:kafka-streams-test-utils:4.3.1"]
OUT = Path(__file__).with_name("serde.json")
LONG_MAX = 2**63 - 1
HASH = bytes(range(0xF0, 0x100))

INTS = [0, 1, -1, 258, 2**31 - 1, -(2**31)]
LONGS = [*INTS, 2**63 - 1, -(2**63), 1_700_000_000_000]
FLOATS = [0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), 2.0**-149]
DOUBLES = [*FLOATS[:-1], 0.1, 5e-324, 1.7976931348623157e308]
STRINGS = ["", "a", "grün", "日本語", "😀", "a\u0000b"]
UUIDS = ["00000000-0000-0000-0000-000000000000", "123e4567-e89b-12d3-a456-426614174000"]
BYTES = [bytes(range(n)) for n in range(40)] + [b"\xff" * n for n in (1, 2, 3, 15, 16, 17, 31)] + [b"21", b"foobar"]

#: Bytes to read, right ones and wrong ones.
CHANGES = [b"old\x00", b"new\x01", b"\x06newold\x02", b"old\x01\x03", b"new\x00\x04"]
CHANGES += [b"\x06newold\x00\x05", b"\x06newold\x01\x05", b"\x00", b"\x01", b"\x00\x02", b"\x00\x01\x05"]
CHANGES += [b"", b"x\x06", b"x\xff", b"\x0cnew\x02", b"\x05new\x02", b"x\x02\x03", b"\x04", b"\xff" * 6 + b"\x02"]
CHANGES += [b"\x02", b"\x04\x02", b"\x01\x05", b"\x05", b"\x06new\x01\x05", b"\x08new\x01\x05"]
TAIL = b"\x00\x00\x00\x07"
SUBSCRIPTIONS = [b"\x80\x01pk", b"\x81\x02pk" + TAIL, b"\x00\x03" + HASH + b"pk", b"\x01\x00" + HASH + b"pk" + TAIL]
SUBSCRIPTIONS += [b"", b"\x80", b"\x80\x00", b"\x82\x01pk" + TAIL, b"\x81\x04pk" + TAIL, b"\x00\x01short"]
SUBSCRIPTIONS += [b"\x81\x01pk", b"\x81\x01" + TAIL, b"\x01\x00" + HASH + b"pk"]
RESPONSES = [b"", b"\x80", b"\x80v", b"\x00" + HASH, b"\x00" + HASH + b"v", b"\x00short", b"\x81v", b"\x01" + HASH]
COMBINED_KEYS = [b"\x00\x00\x00\x02fkpk", b"\x00\x00\x00\x00pk", b"", b"\x00\x00", b"\x00\x00\x00\x09fk"]
COMBINED_KEYS += [b"\xff\xff\xff\xfffk", b"\x00\x00\x00\x02fk"]


def jars() -> list[Path]:
    if len(sys.argv) > 1:
        return sorted(Path(sys.argv[1]).glob("*.jar"))
    from penstock.dev.jars import resolve

    return resolve(COORDINATES)


class Golden:
    def __init__(self) -> None:
        self.data: dict[str, list[Any]] = {"writes": [], "reads": [], "refuses": [], "hashes": []}
        self.headers = jpype.JClass("org.apache.kafka.common.header.internals.RecordHeaders")()

    def write(self, serde: str, java: Any, value: Any, as_json: Any) -> None:
        data = bytes(java.serializer().serialize("t", self.headers, value))
        self.data["writes"].append({"serde": serde, "value": as_json, "hex": data.hex()})

    def read(self, serde: str, java: Any, data: bytes, to_json: Any) -> None:
        try:
            value = java.deserializer().deserialize("t", self.headers, jpype.JArray(jpype.JByte)(data))
        except jpype.JException:
            self.data["refuses"].append({"serde": serde, "hex": data.hex()})
        else:
            shown = None if value is None else to_json(value)
            self.data["reads"].append({"serde": serde, "hex": data.hex(), "value": shown})


def primitives(golden: Golden) -> None:
    serdes = jpype.JClass("org.apache.kafka.common.serialization.Serdes")
    java = jpype.JPackage("java").lang
    for values, name, make, cast, show in [
        (STRINGS, "string", serdes.String(), java.String, str),
        (INTS, "int32", serdes.Integer(), java.Integer, int),
        (LONGS, "int64", serdes.Long(), java.Long, int),
        (FLOATS, "float32", serdes.Float(), java.Float, lambda v: float(v).hex()),
        (DOUBLES, "float64", serdes.Double(), java.Double, lambda v: float(v).hex()),
        ([True, False], "boolean", serdes.Boolean(), java.Boolean, bool),
        (UUIDS, "uuid", serdes.UUID(), jpype.JClass("java.util.UUID").fromString, str),
    ]:
        for value in values:
            golden.write(name, make, cast(value), show(value))
        if name != "string":
            for data in [b"\x00", b"\x01", b"\x02", *(b"123456789"[:n] for n in (0, 3, 4, 5, 7, 8, 9))]:
                golden.read(name, make, data, lambda v, show=show: show(v))


def windows(golden: Golden) -> None:
    package = jpype.JPackage("org").apache.kafka.streams.kstream
    string = jpype.JClass("org.apache.kafka.common.serialization.Serdes").String()
    serdes, windowed = package.WindowedSerdes, package.Windowed
    time, session = package.internals.TimeWindow, package.internals.SessionWindow

    def show(value: Any) -> list[Any]:
        return [str(value.key()), int(value.window().start()), int(value.window().end())]

    for key in ["", "k", "grün"]:
        for start in [0, 1, 256, 1_700_000_000_000]:
            of_time = serdes.TimeWindowedSerde(string, 1000)
            end = start + 1000
            golden.write("windowed", of_time, windowed(key, time(start, end)), [key, start, end])
            of_session = serdes.SessionWindowedSerde(string)
            golden.write("session_windowed", of_session, windowed(key, session(start, end)), [key, start, end])

    def long(*numbers: int) -> bytes:
        return b"".join(n.to_bytes(8, "big", signed=True) for n in numbers)

    for data in [b"", b"short", long(5), *(b"k" + long(n) for n in (5, LONG_MAX - 10, -1, LONG_MAX))]:
        golden.read("windowed", serdes.TimeWindowedSerde(string, 1000), data, show)
        golden.read("windowed_unlimited", serdes.TimeWindowedSerde(string, LONG_MAX), data, show)
    for data in [b"", b"k" + long(1), long(9, 5), b"k" + long(5, 5), b"k" + long(4, 5), b"k" + long(9, -1)]:
        golden.read("session_windowed", serdes.SessionWindowedSerde(string), data, show)


class Pair:
    """A serializer and a deserializer of Java that come without a Serde around them."""

    def __init__(self, serializer: Any, deserializer: Any) -> None:
        self.serializer, self.deserializer = (lambda: serializer), (lambda: deserializer)


def changes(golden: Golden) -> None:
    package = jpype.JPackage("org").apache.kafka.streams.kstream.internals
    string = jpype.JClass("org.apache.kafka.common.serialization.Serdes").String()
    java = Pair(package.ChangedSerializer(string.serializer()), package.ChangedDeserializer(string.deserializer()))
    java.serializer().configure(jpype.JClass("java.util.HashMap")(), False)
    values = [("new", None), (None, "old"), ("new", "old"), ("", "old"), ("", ""), ("", None), (None, "")]
    values += [("n" * n, "old") for n in (63, 64, 8191, 8192)]
    for new, old in values:
        for latest in (True, False):
            golden.write("changed", java, package.Change(new, old, latest), [new, old, latest])

    def show(value: Any) -> list[Any]:
        new, old = (None if v is None else str(v) for v in (value.newValue, value.oldValue))
        return [new, old, bool(value.isLatest)]

    for data in CHANGES:
        golden.read("changed", java, data, show)


def foreign_keys(golden: Golden) -> None:
    package = jpype.JPackage("org").apache.kafka.streams.kstream.internals.foreignkeyjoin
    string = jpype.JClass("org.apache.kafka.common.serialization.Serdes").String()
    topic = jpype.JProxy("java.util.function.Supplier", dict={"get": lambda: "t"})
    halves = jpype.JArray(jpype.JLong)([int.from_bytes(half, "big", signed=True) for half in (HASH[:8], HASH[8:])])
    subscription = package.SubscriptionWrapperSerde(topic, string)
    response = package.SubscriptionResponseWrapperSerde(string)
    wrapper, answer = package.SubscriptionWrapper, package.SubscriptionResponseWrapper
    integer = jpype.JClass("java.lang.Integer")

    for instruction in wrapper.Instruction.values():
        for hash_, shown in [(None, None), (halves, HASH.hex())]:
            for version, partition in [(0, None), (1, 0), (1, 258)]:
                boxed = None if partition is None else integer(partition)
                java = wrapper(hash_, instruction, "pk", jpype.JByte(version), boxed)
                fields = [shown, int(instruction.value()), "pk", version, partition]
                golden.write("subscription", subscription, java, fields)
    for hash_, shown in [(None, None), (halves, HASH.hex())]:
        for value in [None, "", "value"]:
            java = answer(hash_, value, jpype.JByte(0), None)
            golden.write("response", response, java, [shown, value, 0, None])

    def hex_of(longs: Any) -> str | None:
        return None if longs is None else b"".join(int(n).to_bytes(8, "big", signed=True) for n in longs).hex()

    def show(value: Any) -> list[Any]:
        partition = value.primaryPartition()
        key, instruction, hash_ = str(value.primaryKey()), int(value.instruction().value()), hex_of(value.hash())
        return [hash_, instruction, key, int(value.version()), None if partition is None else int(partition)]

    def show_answer(value: Any) -> list[Any]:
        foreign = value.foreignValue()
        hash_ = hex_of(value.originalValueHash())
        return [hash_, None if foreign is None else str(foreign), int(value.version()), None]

    for data in SUBSCRIPTIONS:
        golden.read("subscription", subscription, data, show)
    for data in RESPONSES:
        golden.read("response", response, data, show_answer)
    combined_keys(golden, package, string, topic)


def combined_keys(golden: Golden, package: Any, string: Any, topic: Any) -> None:
    schema = package.CombinedKeySchema(topic, string, topic, string)
    to_bytes = _reach(schema, "toBytes", 3)
    prefix = _reach(schema, "prefixBytes", 2)
    text = jpype.JClass("java.lang.String")
    for foreign, primary in [("fk", "pk"), ("", "pk"), ("fk", ""), ("grün", "p" * 300)]:
        data = bytes(to_bytes.invoke(schema, text(foreign), text(primary), golden.headers).get())
        golden.data["writes"].append({"serde": "combined_key", "value": [foreign, primary], "hex": data.hex()})
        data = bytes(prefix.invoke(schema, text(foreign), golden.headers).get())
        golden.data["writes"].append({"serde": "combined_prefix", "value": foreign, "hex": data.hex()})
    wrap = jpype.JClass("org.apache.kafka.common.utils.Bytes").wrap
    reader = type("Reader", (), {"deserialize": lambda self, _, headers, data: schema.fromBytes(wrap(data), headers)})()
    for data in COMBINED_KEYS:
        golden.read("combined_key", Pair(None, reader), data, lambda v: [str(v.foreignKey()), str(v.primaryKey())])


def _reach(target: Any, name: str, parameters: int) -> Any:
    """The Java method of that name that is not public."""
    for method in target.getClass().getDeclaredMethods():
        if method.getName() == name and method.getParameterCount() == parameters:
            method.setAccessible(True)
            return method
    raise LookupError(name)


def hashes(golden: Golden) -> None:
    utils = jpype.JClass("org.apache.kafka.common.utils.Utils")
    partitioner = jpype.JClass("org.apache.kafka.clients.producer.internals.BuiltInPartitioner")
    murmur3 = jpype.JClass("org.apache.kafka.streams.state.internals.Murmur3")
    for data in [*BYTES, bytes(range(256)) * 3]:
        array = jpype.JArray(jpype.JByte)(data)
        of_128 = b"".join(int(half).to_bytes(8, "big", signed=True) for half in murmur3.hash128(array))
        partitions = {str(n): int(partitioner.partitionForKey(array, n)) for n in (1, 2, 3, 16, 1000)}
        of_32 = int(utils.murmur2(array))
        row = {"hex": data.hex(), "murmur2": of_32, "murmur3": of_128.hex(), "partitions": partitions}
        golden.data["hashes"].append(row)


def main() -> None:
    jpype.startJVM(classpath=[str(jar) for jar in jars()], convertStrings=False)
    golden = Golden()
    for part in (primitives, windows, changes, foreign_keys, hashes):
        part(golden)
    texts = {name: ",\n".join(map(json.dumps, rows)) for name, rows in golden.data.items()}
    lines = [f'"{name}": [\n{text}\n]' for name, text in texts.items()]
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print({name: len(rows) for name, rows in golden.data.items()})


if __name__ == "__main__":
    main()
