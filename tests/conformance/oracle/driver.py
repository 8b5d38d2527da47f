"""Kafka's TopologyTestDriver behind Penstock's test driver.

Records enter as bytes by the driver's own `pipeRecord`; what it produced, to any topic, is drained after each step.
Both are private in Java and are reached by reflection: the public way costs twice the calls and hides changelog topics.

Speed on two cores shared with others (JIT warm): see `tests/conformance/oracle/__init__.py`.
"""

import shutil
from collections.abc import Iterable
from typing import Any

import jpype

from penstock.record import Record
from penstock.serde import Serdes

from . import handlers, options, queries
from .convert import deserialize, duration, from_headers, java_errors, serialize, to_headers, to_java, to_python
from .dsl import StreamsBuilder
from .jvm import J, scratch
from .papi import KeyValue, Session, Versioned, Window, wrap_store

APPLICATION_ID = "conformance"
IN_MEMORY = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"
#: what `handlers` says in Kafka's words
POLICIES = ("dead_letter_topic", "on_deserialization_error", "on_processing_error", "on_production_error")
_CONFIG = {
    "processing_guarantee": ("processing.guarantee", {"exactly_once": "exactly_once_v2"}),
}

RawRecord = tuple[bytes | None, bytes | None, int | None, tuple[tuple[str, bytes | None], ...]]


class TopologyTestDriver:
    """Runs a topology on the real Kafka Streams. `in_memory=True` keeps the DSL's stores in memory (faster to open)."""

    def __init__(
        self, topology: Any, *, config: dict[str, Any] | None = None, start: int = 0, in_memory: bool = False
    ) -> None:
        self.topology = topology.build() if isinstance(topology, StreamsBuilder) else topology
        self._folder = scratch()
        self._now = start
        self._output: dict[str, list[RawRecord]] = {}
        self._read: dict[str, int] = {}
        properties = _properties(config or {}, str(self._folder), in_memory)
        with java_errors():
            self._java = J.TopologyTestDriver(self.topology.java, properties, J.Instant.ofEpochMilli(start))
            handlers.install(self._java, config or {})
        self._pipe, produced = _reflection()
        self._produced = produced.get(self._java)

    def pipe(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Iterable[Any] = ()
    ) -> None:
        """Send one record of raw bytes into the topology and run it to rest."""
        args = (self._java, J.String(topic), J.Long(timestamp), to_java(key), to_java(value), to_headers(headers))
        options.driver_time[0] = self._now
        with java_errors():
            self._pipe.invoke(*args)
        self._drain()

    def advance_wall_clock(self, ms: int) -> None:
        """Move the wall clock and fire what is due."""
        self._now += ms
        options.driver_time[0] = self._now
        with java_errors():
            self._java.advanceWallClockTime(duration(ms))
        self._drain()

    def _drain(self) -> None:
        for entry in self._produced.entrySet():
            queue = entry.getValue()
            if queue.isEmpty():
                continue
            records = self._output.setdefault(str(entry.getKey()), [])
            while (record := queue.poll()) is not None:
                key, value = record.key(), record.value()
                records.append(
                    (
                        None if key is None else bytes(key),
                        None if value is None else bytes(value),
                        None if (timestamp := record.timestamp()) is None else int(timestamp),
                        from_headers(record.headers()),
                    )
                )

    def all_output(self) -> dict[str, list[RawRecord]]:
        """Everything produced so far by topic, internal ones too: (key, value, timestamp, headers)."""
        return {topic: list(records) for topic, records in self._output.items()}

    def topics(self) -> list[str]:
        """The topics that were written to."""
        return sorted(self._output)

    def input_topic(self, name: str, *, key: Any = Serdes.string, value: Any = Serdes.json) -> "InputTopic":
        return InputTopic(self, name, key, value)

    def output_topic(self, name: str, *, key: Any = Serdes.string, value: Any = Serdes.json) -> "OutputTopic":
        return OutputTopic(self, name, key, value)

    def stores(self) -> list[str]:
        """The names of all stores, generated ones too."""
        return sorted(str(name) for name in self._java.getAllStateStores().keySet())

    def store(self, name: str) -> Any:
        """A store with Kafka's verbs in snake_case; values are plain, without their timestamps."""
        java = self._java.getAllStateStores().get(name)
        if isinstance(java, J.TimestampedKeyValueStore):
            java = self._java.getKeyValueStore(name)
        elif isinstance(java, J.TimestampedWindowStore):
            java = self._java.getWindowStore(name)
        return wrap_store(java)

    def query(self, name: str, query: Any) -> Any:
        """Ask a store by Kafka's interactive queries (IQv2): a value, or a list of rows; raises `queries.Refused`."""
        with java_errors():
            return queries.ask(self._java.getAllStateStores().get(name), query)

    def store_contents(self, name: str) -> list[tuple[Any, ...]] | None:
        """All rows of a store, sorted by their text; None for a store that cannot be listed. Shapes: see `compare`."""
        java = self._java.getAllStateStores().get(name)
        store = wrap_store(java)
        rows: Iterable[tuple[Any, ...]]
        if isinstance(store, Versioned):
            rows = self._versions(store)
        elif isinstance(store, KeyValue):
            if any(part in name.lower() for part in ("subscription-state-store", "-subscription-store", "shared-")):
                return None  # of a foreign-key join, or of unmatched rows: keyed by classes of Kafka's own
            rows = ((key, *_cells(value)) for key, value in store.all())
        elif isinstance(store, Window):
            rows = ((key.key, key.start, *_cells(value)) for key, value in store.all())
        elif isinstance(store, Session):
            rows = self._sessions(store)
        else:
            return None
        return sorted(rows, key=repr)

    def _changelog(self, name: str) -> list[RawRecord]:
        return self._output.get(f"{APPLICATION_ID}-{name}-changelog", [])

    def _versions(self, store: Versioned) -> Iterable[tuple[Any, ...]]:
        """A versioned store has no scan: ask for each key that its changelog tells of."""
        serde = _key_serde(store._java)
        for raw in {key for key, *_ in self._changelog(store.name)}:
            key = to_python(serde.deserializer().deserialize("", to_java(raw)))
            yield from ((key, *version) for version in store.versions(key))

    def _sessions(self, store: Session) -> Iterable[tuple[Any, ...]]:
        for key, value in store.fetch_range(None, None):
            yield (key.key, key.start, key.end, value)

    def close(self) -> None:
        """Close the driver and delete its state; a driver that failed may refuse, its files go all the same."""
        try:
            self._java.close()
        except jpype.JException:
            pass
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "TopologyTestDriver":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _cells(value: Any) -> tuple[Any, ...]:
    """A stored value, with its timestamp if it has one."""
    return tuple(value) if type(value).__name__ == "ValueAndTimestamp" else (value,)


def _properties(config: dict[str, Any], folder: str, in_memory: bool) -> Any:
    settings = {
        "application.id": APPLICATION_ID,
        "bootstrap.servers": "none:0",
        "state.dir": folder,
        "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    }
    if in_memory:
        settings["dsl.store.suppliers.class"] = IN_MEMORY
    settings.update(handlers.settings(config))
    for name, value in config.items():
        if name in POLICIES:
            continue
        java_name, words = _CONFIG.get(name, (name.replace("_", "."), {}))
        settings[java_name] = words.get(value, value)
    properties = J.Properties()
    for name, value in settings.items():
        properties.put(name, str(value).lower() if isinstance(value, bool) else str(value))
    return properties


_reflected: list[Any] = []


def _reflection() -> list[Any]:
    """The driver's private `pipeRecord` and the map of what it produced."""
    if not _reflected:
        kind = J.TopologyTestDriver.class_
        for method in kind.getDeclaredMethods():
            if str(method.getName()) == "pipeRecord" and str(method.getParameterTypes()[1].getName()) == "long":
                method.setAccessible(True)
                _reflected.append(method)
        field = kind.getDeclaredField("outputRecordsByTopic")
        field.setAccessible(True)
        _reflected.append(field)
    return _reflected


def _key_serde(java: Any) -> Any:
    """The key serde of a metered store, which only it knows."""
    kind = java.getClass()
    while kind is not None:
        for field in kind.getDeclaredFields():
            if str(field.getName()) == "keySerde":
                field.setAccessible(True)
                return field.get(java)
        inner = [field for field in kind.getDeclaredFields() if str(field.getName()) == "internal"]
        if inner:
            inner[0].setAccessible(True)
            return _key_serde(inner[0].get(java))
        kind = kind.getSuperclass()
    raise LookupError(f"{java} has no key serde")


class InputTopic:
    """Sends typed records; the bytes are made by Kafka's serializers."""

    def __init__(self, driver: TopologyTestDriver, name: str, key: Any, value: Any) -> None:
        self._driver, self._name = driver, name
        self._key, self._value = key, value

    def pipe(self, key: Any = None, value: Any = None, timestamp: int | None = None, headers: Iterable[Any] = (),
             partition: int = 0) -> None:  # fmt: skip
        when = self._driver._now if timestamp is None else timestamp
        raw_key, raw_value = serialize(self._key, self._name, key), serialize(self._value, self._name, value)
        self._driver.pipe(self._name, raw_key, raw_value, when, headers)

    def pipe_all(self, pairs: Iterable[tuple[Any, Any]], start: int = 0, step: int = 0) -> None:
        for index, (key, value) in enumerate(pairs):
            self.pipe(key, value, start + index * step)


class OutputTopic:
    """Reads typed records, each once; the bytes are read by Kafka's deserializers."""

    def __init__(self, driver: TopologyTestDriver, name: str, key: Any, value: Any) -> None:
        self._driver, self._name = driver, name
        self._key, self._value = key, value

    def read(self) -> Record[Any, Any] | None:
        at = self._driver._read.get(self._name, 0)
        records = self._driver._output.get(self._name, [])
        if at >= len(records):
            return None
        self._driver._read[self._name] = at + 1
        key, value, timestamp, headers = records[at]
        typed = deserialize(self._key, self._name, key), deserialize(self._value, self._name, value)
        return Record(*typed, timestamp, headers)

    def read_all(self) -> list[Record[Any, Any]]:
        return list(iter(self.read, None))

    def read_values(self) -> list[Any]:
        return [record.value for record in self.read_all()]

    def read_table(self) -> dict[Any, Any]:
        table: dict[Any, Any] = {}
        for record in self.read_all():
            table[record.key] = record.value
        return table
