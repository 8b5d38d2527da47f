"""Penstock's DSL on Kafka's: every handle holds the Java object of the same name and every method makes one Java call.

Names, keyword options and the order of a function's arguments are those of Penstock's public interface.
"""

from collections.abc import Callable, Iterable
from typing import Any

import jpype

from penstock.durations import millis
from penstock.serde import Serdes

from . import options
from .convert import (
    OracleError,
    arity,
    duration,
    function,
    java_errors,
    to_dict,
    to_key_value,
    to_list,
    to_python,
    to_serde,
)
from .jvm import J, start
from .options import grouped, materialized, named
from .papi import processor_supplier, set_wrapper, store_names, topology_stores, transformer_supplier

_NULL_RESULT = {"method": "apply", "result": lambda _: None}


def _pairs(items: Any) -> Any:
    return to_list(items, to_key_value)


def _truth(value: Any) -> bool:
    return bool(value)


def _predicate(p: Callable[[Any, Any], Any]) -> Any:
    return function("Predicate", p, method="test", result=_truth)


def _mapper(f: Callable[..., Any], with_key: bool, **how: Any) -> Any:
    return function("ValueMapperWithKey" if with_key else "ValueMapper", f, **how)


def _joiner(f: Callable[..., Any], with_key: bool) -> Any:
    return function("ValueJoinerWithKey" if with_key else "ValueJoiner", f)


def _aggregation(store: Any, name: str | None, key: Any, value: Any) -> tuple[Any, ...]:
    """The tail of an aggregation's arguments: `[Named,] Materialized`."""
    return (*named(name), materialized(store, key, value))


def _counting(store: Any, name: str | None, key: Any, value: Any) -> tuple[Any, ...]:
    """The same for a count. No Materialized unless asked: one without a store's name uses up a number of Kafka's names."""
    asked = store is not None or key is not None or value is not None
    return _aggregation(store, name, key, value) if asked else named(name)


def _source_store(store: Any) -> tuple[Any, ...]:
    """The last argument of a table source: a Materialized, if there is a store."""
    return () if store is None else (materialized(store),)


class StreamsBuilder:
    """Kafka's StreamsBuilder behind ours."""

    def __init__(self, *, wrapper: Any = None, explicit_names: bool = False) -> None:
        start()
        names = {"ensure.explicit.internal.resource.naming": "true"}
        settings = (options.topology_config(names),) if explicit_names else ()
        self.java = J["org.apache.kafka.streams.StreamsBuilder"](*settings)
        if wrapper is not None:
            set_wrapper(self.java, wrapper)

    def stream(self, topics: Any, *, key: Any = Serdes.string, value: Any = Serdes.json, timestamp: Any = None,
               offset_reset: Any = None, name: str | None = None) -> "KStream":  # fmt: skip
        return KStream(
            self.java.stream(options.topics(topics), options.consumed(key, value, timestamp, offset_reset, name))
        )

    def table(self, topic: str, *, key: Any = Serdes.string, value: Any = Serdes.json, timestamp: Any = None,
              offset_reset: Any = None, store: Any = None, name: str | None = None) -> "KTable":  # fmt: skip
        source = options.consumed(key, value, timestamp, offset_reset, name)
        return KTable(self.java.table(topic, source, *_source_store(store)))

    def global_table(self, topic: str, *, key: Any = Serdes.string, value: Any = Serdes.json, timestamp: Any = None,
                     store: Any = None, name: str | None = None) -> "GlobalKTable":  # fmt: skip
        source = options.consumed(key, value, timestamp, None, name)
        return GlobalKTable(self.java.globalTable(topic, source, *_source_store(store)))

    def add_state_store(self, spec: Any) -> "StreamsBuilder":
        self.java.addStateStore(options.store_builder(spec))
        return self

    def add_global_store(self, spec: Any, topic: str, processor: Callable[[], Any], *, key: Any = Serdes.string,
                         value: Any = Serdes.json, timestamp: Any = None) -> "StreamsBuilder":  # fmt: skip
        source = options.consumed(key, value, timestamp, None, None)
        builder = options.store_builder(spec if not spec.logged else spec.with_(logged=False))
        self.java.addGlobalStore(builder, topic, source, processor_supplier(processor))
        return self

    def build(self, *, optimize: Iterable[str] = ()) -> "Topology":
        with java_errors():
            return Topology(self.java.build(options.optimizations(optimize)))


class Topology:
    """Kafka's Topology behind ours."""

    def __init__(self, java: Any = None, *, wrapper: Any = None) -> None:
        start()
        self.java = J["org.apache.kafka.streams.Topology"]() if java is None else java
        if wrapper is not None:
            set_wrapper(self.java, wrapper)

    def add_source(self, name: str, topics: Any, *, key: Any = Serdes.string, value: Any = Serdes.json,
                   timestamp: Any = None, offset_reset: Any = None) -> "Topology":  # fmt: skip
        chosen = options.topics(topics)
        if not isinstance(chosen, J["java.util.regex.Pattern"]):
            chosen = jpype.JArray(J.String)([topics] if isinstance(topics, str) else list(topics))
        reset = None if offset_reset is None else options.auto_offset_reset(offset_reset)
        extractor = None if timestamp is None else options.timestamp_extractor(timestamp)
        self.java.addSource(
            jpype.JObject(reset, J.AutoOffsetReset),
            name,
            jpype.JObject(extractor, J.TimestampExtractor),
            to_serde(key).deserializer(),
            to_serde(value).deserializer(),
            chosen,
        )
        return self

    def add_processor(self, name: str, supplier: Callable[[], Any], *parents: str) -> "Topology":
        self.java.addProcessor(name, processor_supplier(supplier), *parents)
        return self

    def add_sink(self, name: str, topic: Any, *parents: str, key: Any = Serdes.string, value: Any = Serdes.json,
                 partitioner: Any = None) -> "Topology":  # fmt: skip
        destination = options.topic_extractor(topic) if callable(topic) else J.String(topic)
        tail = [] if partitioner is None else [options.partitioner(partitioner)]
        serializers = (to_serde(key).serializer(), to_serde(value).serializer())
        self.java.addSink(name, destination, *serializers, *tail, *parents)
        return self

    def add_state_store(self, spec: Any, *processors: str) -> "Topology":
        self.java.addStateStore(options.store_builder(spec), *processors)
        return self

    def add_read_only_state_store(self, spec: Any, topic: str, processor: Callable[[], Any], *, source: str, name: str,
                                  key: Any = Serdes.string, value: Any = Serdes.json,
                                  timestamp: Any = None) -> "Topology":  # fmt: skip
        extractor = None if timestamp is None else options.timestamp_extractor(timestamp)
        self.java.addReadOnlyStateStore(
            options.store_builder(spec),
            source,
            jpype.JObject(extractor, J.TimestampExtractor),
            to_serde(key).deserializer(),
            to_serde(value).deserializer(),
            topic,
            name,
            processor_supplier(processor),
        )
        return self

    def connect(self, processor: str, *stores: str) -> "Topology":
        self.java.connectProcessorAndStateStores(processor, *stores)
        return self

    def describe(self) -> str:
        return str(self.java.describe().toString())

    def topic_configs(self) -> dict[str, dict[str, str]]:
        """The settings of the changelog topics, by store; stores without a changelog are left out."""
        stores = topology_stores(self.java)
        return {name: to_dict(store.logConfig()) for name, store in stores.items() if store.loggingEnabled()}


class _Handle:
    """A Python handle on a Java object."""

    def __init__(self, java: Any) -> None:
        self.java = java

    def _key(self, given: Any) -> Any:
        """The Java serde of the key: given, else that of the stream, which Kafka forgets in places."""
        return self._inherited("keySerde") if given is None else to_serde(given)

    def _value(self, given: Any) -> Any:
        return self._inherited("valueSerde") if given is None else to_serde(given)

    def _materialized(self, store: Any, key: Any, value: Any, *, same_value: bool) -> Any:
        """Materialized with the serdes given or else inherited; that of the value only where its type is the same."""
        if store is not None and not isinstance(store, str):
            key, value = key or store.key, value or store.value
        result = materialized(store, key, value).withKeySerde(self._key(key))
        return result.withValueSerde(self._value(value)) if same_value else result

    def _table_options(
        self, store: Any, name: str | None, key: Any = None, value: Any = None, *, same_value: bool = False
    ) -> tuple[Any, ...]:
        """The tail of a table operation's arguments. No Materialized unless asked: giving one would make a store."""
        if store is None and key is None and value is None:
            return named(name)
        return (*named(name), self._materialized(store, key, value, same_value=same_value))

    def _inherited(self, field: str) -> Any:
        found = J["org.apache.kafka.streams.kstream.internals.AbstractStream"].class_.getDeclaredField(field)
        found.setAccessible(True)
        return found.get(self.java)


class GlobalKTable(_Handle):
    """Kafka's GlobalKTable behind ours."""

    @property
    def queryable_store_name(self) -> str | None:
        return to_python(self.java.queryableStoreName())


class KStream(_Handle):
    """Kafka's KStream behind ours."""

    def filter(self, p: Any, *, name: str | None = None) -> "KStream":
        return KStream(self.java.filter(_predicate(p), *named(name)))

    def filter_not(self, p: Any, *, name: str | None = None) -> "KStream":
        return KStream(self.java.filterNot(_predicate(p), *named(name)))

    def select_key(self, f: Any, *, name: str | None = None) -> "KStream":
        return KStream(self.java.selectKey(function("KeyValueMapper", f), *named(name)))

    def map(self, f: Any, *, name: str | None = None) -> "KStream":
        return KStream(self.java.map(function("KeyValueMapper", f, result=to_key_value), *named(name)))

    def map_values(self, f: Any, *, with_key: bool = False, name: str | None = None) -> "KStream":
        return KStream(self.java.mapValues(_mapper(f, with_key), *named(name)))

    def flat_map(self, f: Any, *, name: str | None = None) -> "KStream":
        return KStream(self.java.flatMap(function("KeyValueMapper", f, result=_pairs), *named(name)))

    def flat_map_values(self, f: Any, *, with_key: bool = False, name: str | None = None) -> "KStream":
        return KStream(self.java.flatMapValues(_mapper(f, with_key, result=to_list), *named(name)))

    def foreach(self, f: Any, *, name: str | None = None) -> None:
        self.java.foreach(function("ForeachAction", f, **_NULL_RESULT), *named(name))

    def peek(self, f: Any, *, name: str | None = None) -> "KStream":
        return KStream(self.java.peek(function("ForeachAction", f, **_NULL_RESULT), *named(name)))

    def print(self, label: str | None = None, file: Any = None, *, name: str | None = None) -> None:
        printed = J.Printed.toSysOut() if file is None else J.Printed.toFile(str(file))
        printed = printed if label is None else printed.withLabel(label)
        self.java.print_(printed if name is None else printed.withName(name))

    def split(self, name: str | None = None) -> "BranchedKStream":
        return BranchedKStream(self.java.split(*named(name)))

    def merge(self, other: "KStream", *, name: str | None = None) -> "KStream":
        return KStream(self.java.merge(other.java, *named(name)))

    def repartition(self, *, key: Any = None, value: Any = None, partitions: int | None = None, partitioner: Any = None,
                    name: str | None = None) -> "KStream":  # fmt: skip
        spec = J.Repartitioned.with_(self._key(key), self._value(value))
        spec = spec if partitions is None else spec.withNumberOfPartitions(jpype.JInt(partitions))
        spec = spec if partitioner is None else spec.withStreamPartitioner(options.partitioner(partitioner))
        return KStream(self.java.repartition(spec if name is None else spec.withName(name)))

    def to(
        self, topic: Any, *, key: Any = None, value: Any = None, partitioner: Any = None, name: str | None = None
    ) -> None:
        destination = options.topic_extractor(topic) if callable(topic) else J.String(topic)
        self.java.to(destination, options.produced(key, value, partitioner, name))

    def to_table(self, *, key: Any = None, value: Any = None, store: Any = None, name: str | None = None) -> "KTable":
        return KTable(self.java.toTable(*named(name), self._materialized(store, key, value, same_value=True)))

    def group_by_key(self, *, key: Any = None, value: Any = None, name: str | None = None) -> "KGroupedStream":
        return KGroupedStream(self.java.groupByKey(grouped(self._key(key), self._value(value), name)))

    def group_by(self, f: Any, *, key: Any = None, value: Any = None, name: str | None = None) -> "KGroupedStream":
        how = grouped(to_serde(key), self._value(value), name)
        return KGroupedStream(self.java.groupBy(function("KeyValueMapper", f), how))

    def join(self, other: Any, joiner: Any, **how: Any) -> "KStream":
        return self._join("join", other, joiner, **how)

    def left_join(self, other: Any, joiner: Any, **how: Any) -> "KStream":
        return self._join("leftJoin", other, joiner, **how)

    def outer_join(self, other: Any, joiner: Any, **how: Any) -> "KStream":
        return self._join("outerJoin", other, joiner, **how)

    def _join(self, method: str, other: Any, joiner: Any, *, window: Any = None, select: Any = None, grace: Any = None,
              with_key: bool = False, key: Any = None, value: Any = None, other_value: Any = None, store: Any = None,
              name: str | None = None) -> "KStream":  # fmt: skip
        call = getattr(self.java, method)
        combine = _joiner(joiner, with_key)
        if isinstance(other, KStream):
            how = options.stream_joined(self._key(key), self._value(value), other._value(other_value), store, name)
            return KStream(call(other.java, combine, options.join_windows(window), how))
        if isinstance(other, GlobalKTable):
            return KStream(call(other.java, function("KeyValueMapper", select), combine, *named(name)))
        joined = J.Joined.with_(to_serde(key), to_serde(value), to_serde(other_value))
        joined = joined if name is None else joined.withName(name)
        joined = joined if grace is None else joined.withGracePeriod(duration(millis(grace, "grace")))
        return KStream(call(other.java, combine, joined))

    def process(self, supplier: Any, *, stores: Any = (), name: str | None = None) -> "KStream":
        return KStream(self.java.process(processor_supplier(supplier, stores), *named(name), *store_names(stores)))

    def process_values(self, supplier: Any, *, stores: Any = (), name: str | None = None) -> "KStream":
        made = processor_supplier(supplier, stores, fixed_key=True)
        return KStream(self.java.processValues(made, *named(name), *store_names(stores)))


class BranchedKStream(_Handle):
    """Kafka's BranchedKStream behind ours."""

    def branch(self, p: Any, name: str | None = None) -> "BranchedKStream":
        self.java.branch(_predicate(p), *self._branched(name))
        return self

    def default(self, name: str | None = None) -> dict[str, KStream]:
        return self._streams(self.java.defaultBranch(*self._branched(name)))

    def no_default(self) -> dict[str, KStream]:
        return self._streams(self.java.noDefaultBranch())

    @staticmethod
    def _branched(name: str | None) -> tuple[Any, ...]:
        return () if name is None else (J.Branched.as_(name),)

    @staticmethod
    def _streams(java: Any) -> dict[str, KStream]:
        return {str(entry.getKey()): KStream(entry.getValue()) for entry in java.entrySet()}


class KTable(_Handle):
    """Kafka's KTable behind ours."""

    @property
    def queryable_store_name(self) -> str | None:
        return to_python(self.java.queryableStoreName())

    def filter(self, p: Any, *, store: Any = None, name: str | None = None, **serdes: Any) -> "KTable":
        return KTable(self.java.filter(_predicate(p), *self._table_options(store, name, **serdes, same_value=True)))

    def filter_not(self, p: Any, *, store: Any = None, name: str | None = None, **serdes: Any) -> "KTable":
        return KTable(self.java.filterNot(_predicate(p), *self._table_options(store, name, **serdes, same_value=True)))

    def map_values(self, f: Any, *, with_key: bool = False, store: Any = None, name: str | None = None,
                   **serdes: Any) -> "KTable":  # fmt: skip
        return KTable(self.java.mapValues(_mapper(f, with_key), *self._table_options(store, name, **serdes)))

    def transform_values(self, supplier: Any, stores: Any = (), *, store: Any = None, name: str | None = None,
                         **serdes: Any) -> "KTable":  # fmt: skip
        made = transformer_supplier(supplier, stores)
        # Materialized comes before Named here, unlike in every other method
        tail = tuple(reversed(self._table_options(store, name, **serdes)))
        return KTable(self.java.transformValues(made, *tail, *store_names(stores)))

    def to_stream(self, key: Any = None, *, name: str | None = None) -> KStream:
        mapper = () if key is None else (function("KeyValueMapper", key),)
        return KStream(self.java.toStream(*mapper, *named(name)))

    def suppress(self, suppressed: Any, *, name: str | None = None) -> "KTable":
        return KTable(self.java.suppress(options.suppressed(suppressed, name)))

    def group_by(self, f: Any, *, key: Any = None, value: Any = None, name: str | None = None) -> "KGroupedTable":
        mapper = function("KeyValueMapper", f, result=to_key_value)
        return KGroupedTable(self.java.groupBy(mapper, grouped(to_serde(key), to_serde(value), name)))

    def join(self, other: "KTable", joiner: Any, **how: Any) -> "KTable":
        return self._join("join", other, joiner, **how)

    def left_join(self, other: "KTable", joiner: Any, **how: Any) -> "KTable":
        return self._join("leftJoin", other, joiner, **how)

    def outer_join(self, other: "KTable", joiner: Any, **how: Any) -> "KTable":
        return self._join("outerJoin", other, joiner, **how)

    def _join(self, method: str, other: "KTable", joiner: Any, *, foreign_key: Any = None, store: Any = None,
              name: str | None = None, **serdes: Any) -> "KTable":  # fmt: skip
        call = getattr(self.java, method)
        combine = _joiner(joiner, False)
        if foreign_key is None:
            return KTable(call(other.java, combine, *self._table_options(store, name, **serdes)))
        interface = "java.util.function.BiFunction" if arity(foreign_key) == 2 else "java.util.function.Function"
        extract = function(interface, foreign_key)
        how = () if name is None else (J.TableJoined.as_(name),)
        return KTable(call(other.java, extract, combine, *how, *self._table_options(store, None, **serdes)))


class KGroupedStream(_Handle):
    """Kafka's KGroupedStream behind ours."""

    def count(self, *, store: Any = None, name: str | None = None, key: Any = None, value: Any = None) -> KTable:
        return KTable(self.java.count(*_counting(store, name, key, value)))

    def reduce(
        self, f: Any, *, store: Any = None, name: str | None = None, key: Any = None, value: Any = None
    ) -> KTable:
        return KTable(self.java.reduce(function("Reducer", f), *_aggregation(store, name, key, value)))

    def aggregate(self, init: Any, f: Any, *, store: Any = None, name: str | None = None, key: Any = None,
                  value: Any = None) -> KTable:  # fmt: skip
        steps = (function("Initializer", init), function("Aggregator", f))
        return KTable(self.java.aggregate(*steps, *_aggregation(store, name, key, value)))

    def windowed_by(self, spec: Any) -> "WindowedKStream":
        return WindowedKStream(self.java.windowedBy(options.windows(spec)))

    def cogroup(self, f: Any) -> "CogroupedKStream":
        return CogroupedKStream(self.java.cogroup(function("Aggregator", f)))


class WindowedKStream(_Handle):
    """Kafka's TimeWindowedKStream (time, sliding and unlimited windows) or SessionWindowedKStream behind ours."""

    def count(self, *, store: Any = None, name: str | None = None, key: Any = None, value: Any = None) -> KTable:
        return KTable(self.java.count(*_counting(store, name, key, value)))

    def reduce(
        self, f: Any, *, store: Any = None, name: str | None = None, key: Any = None, value: Any = None
    ) -> KTable:
        return KTable(self.java.reduce(function("Reducer", f), *_aggregation(store, name, key, value)))

    def aggregate(self, init: Any, f: Any, merger: Any = None, *, store: Any = None, name: str | None = None,
                  key: Any = None, value: Any = None) -> KTable:  # fmt: skip
        steps = [function("Initializer", init), function("Aggregator", f)]
        steps += [] if merger is None else [function("Merger", merger)]
        return KTable(self.java.aggregate(*steps, *_aggregation(store, name, key, value)))

    def emit(self, strategy: Any) -> "WindowedKStream":
        return WindowedKStream(self.java.emitStrategy(options.emit_strategy(strategy)))


class CogroupedKStream(_Handle):
    """Kafka's CogroupedKStream, or a windowed one, behind ours."""

    def cogroup(self, other: KGroupedStream, f: Any) -> "CogroupedKStream":
        return CogroupedKStream(self.java.cogroup(other.java, function("Aggregator", f)))

    def windowed_by(self, spec: Any) -> "CogroupedKStream":
        return CogroupedKStream(self.java.windowedBy(options.windows(spec)))

    def aggregate(self, init: Any, merger: Any = None, *, store: Any = None, name: str | None = None, key: Any = None,
                  value: Any = None) -> KTable:  # fmt: skip
        steps = [function("Initializer", init)] + ([] if merger is None else [function("Merger", merger)])
        return KTable(self.java.aggregate(*steps, *_aggregation(store, name, key, value)))


class KGroupedTable(_Handle):
    """Kafka's KGroupedTable behind ours."""

    def count(self, *, store: Any = None, name: str | None = None, key: Any = None, value: Any = None) -> KTable:
        return KTable(self.java.count(*_counting(store, name, key, value)))

    def reduce(self, adder: Any, subtractor: Any, *, store: Any = None, name: str | None = None, key: Any = None,
               value: Any = None) -> KTable:  # fmt: skip
        steps = (function("Reducer", adder), function("Reducer", subtractor))
        return KTable(self.java.reduce(*steps, *_aggregation(store, name, key, value)))

    def aggregate(self, init: Any, adder: Any, subtractor: Any, *, store: Any = None, name: str | None = None,
                  key: Any = None, value: Any = None) -> KTable:  # fmt: skip
        steps = (function("Initializer", init), function("Aggregator", adder), function("Aggregator", subtractor))
        return KTable(self.java.aggregate(*steps, *_aggregation(store, name, key, value)))


__all__ = ["GlobalKTable", "KStream", "KTable", "OracleError", "StreamsBuilder", "Topology"]
