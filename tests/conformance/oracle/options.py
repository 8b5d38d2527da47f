"""Penstock's option objects (windows, stores, suppress, serdes) as the Java objects of the same meaning."""

import re
from collections.abc import Callable
from typing import Any

import jpype

from penstock.durations import millis

from .convert import arity, duration, from_headers, function, proxy, to_java, to_python, to_serde
from .jvm import J

OPTIMIZATIONS = {
    "reuse_ktable_source_topics": "reuse.ktable.source.topics",
    "merge_repartition_topics": "merge.repartition.topics",
    "single_store_self_join": "single.store.self.join",
}


def named(name: str | None) -> tuple[Any, ...]:
    """The optional last argument `Named`."""
    return () if name is None else (J.Named.as_(name),)


def topics(spec: Any) -> Any:
    """A topic name, several, or a compiled pattern."""
    if isinstance(spec, re.Pattern):
        return J["java.util.regex.Pattern"].compile(spec.pattern)
    if isinstance(spec, str):
        return J.String(spec)
    result = J.ArrayList()
    for name in spec:
        result.add(J.String(name))
    return result


def optimizations(optimize: Any) -> Any:
    """Properties for `StreamsBuilder.build`."""
    wanted = [optimize] if isinstance(optimize, str) else list(optimize)
    properties = J.Properties()
    if wanted:
        text = "all" if "all" in wanted else ",".join(OPTIMIZATIONS[name] for name in wanted)
        properties.put("topology.optimization", text)
    return properties


def topology_config(settings: dict[str, str]) -> Any:
    """TopologyConfig, of Kafka's own names."""
    properties = J.Properties()
    for name, value in {"application.id": "any", "bootstrap.servers": "any:1", **settings}.items():
        properties.put(name, value)
    return J.TopologyConfig(J.StreamsConfig(properties))


# --- windows --------------------------------------------------------------------------------------------------------


def windows(spec: Any) -> Any:
    """TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows."""
    kind = type(spec).__name__
    if kind == "TimeWindows":
        return J.TimeWindows.ofSizeAndGrace(duration(spec.size), duration(spec.grace)).advanceBy(duration(spec.advance))
    if kind == "SlidingWindows":
        return J.SlidingWindows.ofTimeDifferenceAndGrace(duration(spec.difference), duration(spec.grace))
    if kind == "SessionWindows":
        return J.SessionWindows.ofInactivityGapAndGrace(duration(spec.gap), duration(spec.grace))
    if kind == "UnlimitedWindows":
        return J.UnlimitedWindows.of().startOn(J.Instant.ofEpochMilli(spec.start))
    raise TypeError(f"not windows: {spec!r}")


def join_windows(spec: Any) -> Any:
    """JoinWindows; the widest side first, because `before` and `after` are checked one at a time."""
    widest = max(spec.before, spec.after)
    result = J.JoinWindows.ofTimeDifferenceAndGrace(duration(widest), duration(spec.grace))
    return result.before(duration(spec.before)).after(duration(spec.after))


def emit_strategy(spec: Any) -> Any:
    """EmitStrategy, recognised by its name."""
    return J.EmitStrategy.onWindowClose() if "close" in _word(spec) else J.EmitStrategy.onWindowUpdate()


def punctuation_type(spec: Any) -> Any:
    """PunctuationType, recognised by its name."""
    return J.PunctuationType.WALL_CLOCK_TIME if "wall" in _word(spec) else J.PunctuationType.STREAM_TIME


def _word(spec: Any) -> str:
    return f"{getattr(spec, 'name', '')} {getattr(spec, 'value', '')} {spec!r}".lower()


def suppressed(spec: Any, name: str | None = None) -> Any:
    """Suppressed; one without a wait time is until the window closes."""
    buffer, name = _buffer(spec.buffer), name or spec.name
    if spec.wait is None:
        result = J.Suppressed.untilWindowCloses(buffer)
    else:
        result = J.Suppressed.untilTimeLimit(duration(spec.wait), buffer)
    return result if name is None else result.withName(name)


def _buffer(spec: Any) -> Any:
    config = J["org.apache.kafka.streams.kstream.Suppressed$BufferConfig"]
    if spec.records is None and spec.bytes is None:
        result = config.unbounded()
    else:
        result = config.maxBytes(spec.bytes) if spec.records is None else config.maxRecords(spec.records)
        if spec.records is not None and spec.bytes is not None:
            result = result.withMaxBytes(spec.bytes)
        if spec.shut_down:
            result = result.shutDownWhenFull()
    return result if spec.logged else result.withLoggingDisabled()


# --- configuration of nodes -----------------------------------------------------------------------------------------


def consumed(key: Any, value: Any, timestamp: Any, offset_reset: Any, name: str | None) -> Any:
    """Consumed, of a source."""
    result = J.Consumed.with_(to_serde(key), to_serde(value))
    if timestamp is not None:
        result = result.withTimestampExtractor(timestamp_extractor(timestamp))
    if offset_reset is not None:
        result = result.withOffsetResetPolicy(auto_offset_reset(offset_reset))
    return result if name is None else result.withName(name)


def auto_offset_reset(spec: Any) -> Any:
    """AutoOffsetReset, of a word or of a duration."""
    reset = J["org.apache.kafka.streams.AutoOffsetReset"]
    if isinstance(spec, str):
        return getattr(reset, "none" if spec == "none" else spec)()
    return reset.byDuration(duration(millis(spec, "offset_reset")))


class ConsumerRecordView:
    """What a timestamp extractor is given: the record as it was read."""

    def __init__(self, java: Any) -> None:
        self.topic, self.partition, self.offset = str(java.topic()), int(java.partition()), int(java.offset())
        self.key, self.value = to_python(java.key()), to_python(java.value())
        self.timestamp, self.headers = int(java.timestamp()), from_headers(java.headers())


_EXTRACTORS = {
    "fail_on_invalid": "FailOnInvalidTimestamp",
    "skip_on_invalid": "LogAndSkipOnInvalidTimestamp",
    "partition_time_on_invalid": "UsePartitionTimeOnInvalidTimestamp",
}
#: the time that `wall_clock` gives: the driver's. Kafka's own extractor asks the machine, even under the test driver
driver_time = [0]


def timestamp_extractor(extractor: Callable[..., int]) -> Any:
    """A callable `f(record, partition_time)`, or `f(record)`, as a TimestampExtractor; built-in ones are Kafka's."""
    name = getattr(extractor, "__name__", "")
    if name in _EXTRACTORS:
        return J[f"org.apache.kafka.streams.processor.{_EXTRACTORS[name]}"]()
    if name == "wall_clock":
        return proxy("TimestampExtractor", extract=lambda record, partition_time: driver_time[0])
    count = arity(extractor)

    def extract(record: Any, partition_time: Any) -> int:
        view = ConsumerRecordView(record)
        return extractor(view) if count == 1 else extractor(view, int(partition_time))

    return proxy("TimestampExtractor", extract=extract)


def partitioner(choose: Callable[..., Any]) -> Any:
    """A callable `f([topic,] key, value, partitions)` that gives None, a number or numbers."""
    with_topic = arity(choose) >= 4

    def partitions(topic: Any, key: Any, value: Any, count: Any) -> Any:
        args = (to_python(key), to_python(value), int(count))
        chosen = choose(str(topic), *args) if with_topic else choose(*args)
        if chosen is None:
            return J.Optional.empty()
        result = J.HashSet()
        for number in [chosen] if isinstance(chosen, int) else chosen:
            result.add(J.Integer(number))
        return J.Optional.of(result)

    return proxy("StreamPartitioner", partitions=partitions)


class RecordContextView:
    """What a topic extractor is given beside key and value."""

    def __init__(self, java: Any) -> None:
        self.topic = None if java.topic() is None else str(java.topic())
        self.partition, self.offset = int(java.partition()), int(java.offset())
        self.timestamp, self.headers = int(java.timestamp()), from_headers(java.headers())


def topic_extractor(extractor: Callable[..., str]) -> Any:
    """A callable `f(key, value, context)` or `f(key, value)` as a TopicNameExtractor."""
    count = arity(extractor)

    def extract(key: Any, value: Any, context: Any) -> Any:
        args = (to_python(key), to_python(value), RecordContextView(context))
        return J.String(extractor(*args[:count]))

    return proxy("TopicNameExtractor", extract=extract)


def produced(key: Any, value: Any, partition: Any, name: str | None) -> Any:
    """Produced, of a sink."""
    result = J.Produced.with_(to_serde(key), to_serde(value))
    if partition is not None:
        result = result.withStreamPartitioner(partitioner(partition))
    return result if name is None else result.withName(name)


def grouped(key: Any, value: Any, name: str | None) -> Any:
    """Grouped, of Java serdes."""
    result = J.Grouped.with_(key, value)
    return result if name is None else result.withName(name)


# --- stores ---------------------------------------------------------------------------------------------------------


def _kind(spec: Any) -> str:
    return str(getattr(spec.kind, "value", spec.kind))


def materialized(store: Any, key: Any = None, value: Any = None) -> Any:
    """Materialized for a store name, a `Stores.*` spec or None, with serdes where they are given."""
    if store is None:
        return J.Materialized.with_(to_serde(key), to_serde(value))
    if isinstance(store, str):
        result = J.Materialized.as_(J.String(store))
    else:
        key, value = key or store.key, value or store.value
        result = _materialized_spec(store)
    if key is not None:
        result = result.withKeySerde(to_serde(key))
    return result if value is None else result.withValueSerde(to_serde(value))


def _materialized_spec(spec: Any) -> Any:
    kind = _kind(spec)
    if kind in ("versioned", "lru"):
        result = J.Materialized.as_(_key_value_supplier(spec))
    else:
        result = J.Materialized.as_(J.String(spec.name))
        if not spec.persistent:
            result = result.withStoreType(J.BuiltInDslStoreSuppliers.IN_MEMORY)
        if spec.retention is not None:
            result = result.withRetention(duration(spec.retention))
    if spec.cached is not None:
        result = result.withCachingEnabled() if spec.cached else result.withCachingDisabled()
    return _logging(result, spec)


def _logging(result: Any, spec: Any) -> Any:
    """The changelog of a store: none, or a topic with settings."""
    if not spec.logged:
        return result.withLoggingDisabled()
    if not spec.topic_config:
        return result
    settings = J.HashMap()
    for name, value in spec.topic_config:
        settings.put(name, value)
    return result.withLoggingEnabled(settings)


def _key_value_supplier(spec: Any) -> Any:
    kind = _kind(spec)
    if kind == "versioned":
        args = [duration(spec.history)] + ([duration(spec.segment_interval)] if spec.segment_interval else [])
        return J.Stores.persistentVersionedKeyValueStore(spec.name, *args)
    if kind == "lru":
        return J.Stores.lruMap(spec.name, jpype.JInt(spec.max_entries))
    if not spec.persistent:
        return J.Stores.inMemoryKeyValueStore(spec.name)
    if spec.timestamped:
        return J.Stores.persistentTimestampedKeyValueStore(spec.name)
    return J.Stores.persistentKeyValueStore(spec.name)


def _window_supplier(spec: Any) -> Any:
    make = (
        J.Stores.inMemoryWindowStore
        if not spec.persistent
        else J.Stores.persistentTimestampedWindowStore
        if spec.timestamped
        else J.Stores.persistentWindowStore
    )
    return make(spec.name, duration(spec.retention), duration(spec.window_size), jpype.JBoolean(spec.retain_duplicates))


def _session_supplier(spec: Any) -> Any:
    make = J.Stores.persistentSessionStore if spec.persistent else J.Stores.inMemorySessionStore
    return make(spec.name, duration(spec.retention))


def store_builder(spec: Any) -> Any:
    """A StoreBuilder, for stores of the Processor API. Serdes that were left open are string."""
    serdes = J["org.apache.kafka.common.serialization.Serdes"]
    args = (to_serde(spec.key) or serdes.String(), to_serde(spec.value) or serdes.String())
    kind = _kind(spec)
    if kind == "window":
        make = J.Stores.timestampedWindowStoreBuilder if spec.timestamped else J.Stores.windowStoreBuilder
        result = make(_window_supplier(spec), *args)
    elif kind == "session":
        result = J.Stores.sessionStoreBuilder(_session_supplier(spec), *args)
    elif kind == "versioned":
        result = J.Stores.versionedKeyValueStoreBuilder(_key_value_supplier(spec), *args)
    elif kind in ("key_value", "lru"):
        make = J.Stores.timestampedKeyValueStoreBuilder if spec.timestamped else J.Stores.keyValueStoreBuilder
        result = make(_key_value_supplier(spec), *args)
    else:
        raise NotImplementedError(f"Kafka Streams has no {kind} store")
    if spec.cached is not None and kind != "versioned":
        result = result.withCachingEnabled() if spec.cached else result.withCachingDisabled()
    return _logging(result, spec)


def stream_joined(key: Any, value: Any, other_value: Any, store: Any, name: str | None) -> Any:
    """StreamJoined, of Java serdes; `store` names the stores, or is a window spec whose options they take, or one a side."""
    result = J.StreamJoined.with_(key, value, other_value)
    if name is not None:
        result = result.withName(name)
    if store is None:
        return result
    if isinstance(store, tuple):
        this, other = store
        result = result if this is None else result.withThisStoreSupplier(_window_supplier(this))
        return result if other is None else result.withOtherStoreSupplier(_window_supplier(other))
    result = result.withStoreName(store if isinstance(store, str) else store.name)
    if not isinstance(store, str):
        if not store.persistent:
            result = result.withDslStoreSuppliers(J.BuiltInDslStoreSuppliers.IN_MEMORY)
        result = _logging(result, store)
    return result


__all__ = [
    "auto_offset_reset", "consumed", "emit_strategy", "function", "grouped", "join_windows", "materialized", "named",
    "optimizations", "partitioner", "produced", "punctuation_type", "store_builder", "stream_joined", "suppressed",
    "timestamp_extractor", "to_java", "topic_extractor", "topics", "topology_config", "windows",
]  # fmt: skip
