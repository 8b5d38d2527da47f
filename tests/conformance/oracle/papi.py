"""Penstock's Processor API on Kafka's: processors, context and stores are thin wrappers, one Java call each."""

from collections.abc import Callable, Iterator
from typing import Any

import jpype

from penstock.durations import millis
from penstock.processor import FixedKeyRecord
from penstock.record import Record, RecordMetadata, VersionedRecord, Windowed

from .convert import (
    duration,
    from_record,
    proxy,
    to_headers,
    to_java,
    to_key_value,
    to_list,
    to_python,
    to_record,
    to_serde,
)
from .jvm import J
from .options import punctuation_type, store_builder


def store_names(stores: Any) -> list[str]:
    """The stores of a processor that were given by name."""
    return [store for store in ([stores] if isinstance(stores, str) else stores) if isinstance(store, str)]


def _store_specs(stores: Any) -> Any:
    """The stores of a processor that were given as specs, for the supplier to bring along; null if there are none."""
    specs = [store for store in ([stores] if isinstance(stores, str) else stores) if not isinstance(store, str)]
    if not specs:
        return None
    result = J.HashSet()
    for spec in specs:
        result.add(store_builder(spec))
    return result


def processor_supplier(supplier: Callable[[], Any], stores: Any = (), *, fixed_key: bool = False) -> Any:
    """A Processor class, or any callable that makes one, as a (FixedKey)ProcessorSupplier."""
    interface, kind = ("FixedKeyProcessor", FixedKeyRecord) if fixed_key else ("Processor", Record)

    def get() -> Any:
        processor = supplier()
        return proxy(
            interface,
            init=lambda context: _call(processor, "init", Context(context, fixed_key)),
            process=lambda record: processor.process(from_record(record, kind)),
            close=lambda: _call(processor, "close"),
        )

    return proxy(f"{interface}Supplier", get=get, stores=lambda: _store_specs(stores))


def transformer_supplier(supplier: Callable[[], Any], stores: Any = ()) -> Any:
    """An object with `transform(key, value)` as a ValueTransformerWithKeySupplier."""

    def get() -> Any:
        transformer = supplier()
        return proxy(
            "ValueTransformerWithKey",
            init=lambda context: _call(transformer, "init", Context(context, False)),
            transform=lambda key, value: to_java(transformer.transform(to_python(key), to_python(value))),
            close=lambda: _call(transformer, "close"),
        )

    return proxy("ValueTransformerWithKeySupplier", get=get, stores=lambda: _store_specs(stores))


def set_wrapper(java: Any, wrapper: Callable[[str, Callable[..., None]], Callable[..., None]]) -> None:
    """Let a wrapper of ours, `f(node, process) -> process`, be the ProcessorWrapper of a StreamsBuilder or Topology.

    Java makes its wrapper from a class that the configuration names; a proxy has none, so the field is set.
    """

    def supplier(kind: str) -> Callable[[Any, Any], Any]:
        def wrap(node: Any, inner: Any) -> Any:
            def get() -> Any:
                target = _invoke(inner, f"{kind}Supplier", "get")

                def run(key: Any, value: Any, timestamp: int, headers: Any) -> None:
                    record = J.Record(to_java(key), to_java(value), jpype.JLong(timestamp), to_headers(headers))
                    fixed = J.InternalFixedKeyRecordFactory.create(record) if "Fixed" in kind else record
                    _invoke(target, kind, "process", fixed)

                process = wrapper(str(node), run)

                def on_record(record: Any) -> None:
                    ours = from_record(record)
                    process(ours.key, ours.value, ours.timestamp, ours.headers)

                return proxy(
                    kind,
                    init=lambda context: _invoke(target, kind, "init", context),
                    process=on_record,
                    close=lambda: _invoke(target, kind, "close"),
                )

            stores = _invoke(inner, "ConnectedStoreProvider", "stores")
            wrapped = proxy(f"{kind}Supplier", get=get, stores=lambda: stores)
            make = J.ProcessorWrapper.asWrappedFixedKey if "Fixed" in kind else J.ProcessorWrapper.asWrapped
            return make(wrapped)

        return wrap

    methods = {
        "wrapProcessorSupplier": supplier("Processor"),
        "wrapFixedKeyProcessorSupplier": supplier("FixedKeyProcessor"),
    }
    field = J["org.apache.kafka.streams.processor.internals.InternalTopologyBuilder"].class_.getDeclaredField(
        "processorWrapper"
    )
    field.setAccessible(True)
    field.set(_internal_builder(java), proxy("ProcessorWrapper", **methods))


def _invoke(target: Any, interface: str, name: str, *args: Any) -> Any:
    """Call through Java: a target may be a Python proxy, or of a class that is not public."""
    method = next(method for method in getattr(J, interface).class_.getMethods() if str(method.getName()) == name)
    return method.invoke(target, *args)


def _internal_builder(java: Any) -> Any:
    field = java.getClass().getDeclaredField("internalTopologyBuilder")
    field.setAccessible(True)
    return field.get(java)


def topology_stores(java: Any) -> dict[str, Any]:
    """The factories of a topology's stores by name."""
    builder = _internal_builder(java)
    field = builder.getClass().getDeclaredField("stateFactories")
    field.setAccessible(True)
    return {str(entry.getKey()): entry.getValue() for entry in field.get(builder).entrySet()}


def _call(target: Any, name: str, *args: Any) -> None:
    method = getattr(target, name, None)
    if method is not None:
        method(*args)


class Cancellable:
    """The handle of a punctuator."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def cancel(self) -> None:
        self._java.cancel()


class Context:
    """What a processor sees of its task. Timers, views and lateness are Penstock's own: Kafka has none."""

    def __init__(self, java: Any, fixed_key: bool) -> None:
        self._java = java
        self._fixed_key = fixed_key

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        java = to_record(record)
        if self._fixed_key:
            java = J.InternalFixedKeyRecordFactory.create(java)
        self._java.forward(java, *([] if child is None else [child]))

    def schedule(self, every: Any, kind: Any, callback: Callable[[int], None], start: int | None = None) -> Cancellable:
        anchor = [] if start is None else [J.Instant.ofEpochMilli(start)]
        punctuator = proxy("Punctuator", punctuate=lambda timestamp: callback(int(timestamp)))
        return Cancellable(
            self._java.schedule(*anchor, duration(millis(every, "every")), punctuation_type(kind), punctuator)
        )

    def store(self, name: str) -> Any:
        return wrap_store(self._java.getStateStore(name))

    def commit(self) -> None:
        self._java.commit()

    @property
    def record_metadata(self) -> RecordMetadata | None:
        found = self._java.recordMetadata()
        if not found.isPresent() or found.get().topic() is None:  # in punctuations Java's is there, but empty
            return None
        metadata = found.get()
        return RecordMetadata(str(metadata.topic()), int(metadata.partition()), int(metadata.offset()))

    @property
    def application_id(self) -> str:
        return str(self._java.applicationId())

    @property
    def stream_time(self) -> int:
        return int(self._java.currentStreamTimeMs())

    @property
    def system_time(self) -> int:
        return int(self._java.currentSystemTimeMs())


# --- stores ---------------------------------------------------------------------------------------------------------


class Rows(Iterator[tuple[Any, Any]]):
    """All rows of a Java iterator, read at once so that it is closed; usable in a `with` block, as Penstock's."""

    def __init__(self, java: Any) -> None:
        try:
            self._rows = iter([to_python(java.next()) for _ in iter(java.hasNext, False)])
        finally:
            java.close()

    def __next__(self) -> tuple[Any, Any]:
        return next(self._rows)

    def close(self) -> None:
        self._rows = iter(())

    def __enter__(self) -> "Rows":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class KeyValue:
    """A key-value store, plain or timestamped."""

    def __init__(self, java: Any) -> None:
        self._java = java
        self.name = str(java.name())

    def get(self, key: Any) -> Any:
        return to_python(self._java.get(to_java(key)))

    def put(self, key: Any, value: Any) -> None:
        self._java.put(to_java(key), to_java(value))

    def put_if_absent(self, key: Any, value: Any) -> Any:
        return to_python(self._java.putIfAbsent(to_java(key), to_java(value)))

    def put_all(self, pairs: Any) -> None:
        self._java.putAll(to_list(pairs, to_key_value))

    def delete(self, key: Any) -> Any:
        return to_python(self._java.delete(to_java(key)))

    def range(self, lower: Any = None, upper: Any = None) -> Rows:
        return Rows(self._java.range(to_java(lower), to_java(upper)))

    def reverse_range(self, lower: Any = None, upper: Any = None) -> Rows:
        return Rows(self._java.reverseRange(to_java(lower), to_java(upper)))

    def all(self) -> Rows:
        return Rows(self._java.all())

    def reverse_all(self) -> Rows:
        return Rows(self._java.reverseAll())

    def prefix_scan(self, prefix: Any, serde: Any = None) -> Rows:
        java_serde = to_serde(serde) if serde else J["org.apache.kafka.common.serialization.Serdes"].String()
        return Rows(self._java.prefixScan(to_java(prefix), java_serde.serializer()))

    def approximate_num_entries(self) -> int:
        return int(self._java.approximateNumEntries())

    def compute(self, key: Any, f: Callable[[Any, Any], Any]) -> Any:
        value = f(key, self.get(key))
        self.put(key, value)
        return value

    def merge(self, key: Any, value: Any, f: Callable[[Any, Any], Any]) -> Any:
        old = self.get(key)
        merged = value if old is None else f(old, value)
        self.put(key, merged)
        return merged


class Versioned:
    """A versioned store."""

    def __init__(self, java: Any) -> None:
        self._java = java
        self.name = str(java.name())

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        return int(self._java.put(to_java(key), to_java(value), timestamp))

    def get(self, key: Any, as_of: int | None = None) -> Any:
        return to_python(self._java.get(to_java(key), *([] if as_of is None else [as_of])))

    def delete(self, key: Any, timestamp: int) -> Any:
        return to_python(self._java.delete(to_java(key), timestamp))

    def versions(self, key: Any) -> list[VersionedRecord]:
        """Every version of a key with its end, which only a query tells."""
        query = J["org.apache.kafka.streams.query.MultiVersionedKeyQuery"].withKey(to_java(key))
        bound = J["org.apache.kafka.streams.query.PositionBound"].unbounded()
        config = J["org.apache.kafka.streams.query.QueryConfig"](False)
        return list(Rows(self._java.query(query, bound, config).getResult()))


class Window:
    """A window store, plain or timestamped."""

    def __init__(self, java: Any) -> None:
        self._java = java
        self.name = str(java.name())

    def put(self, key: Any, value: Any, timestamp: int) -> None:
        self._java.put(to_java(key), to_java(value), timestamp)

    def fetch(self, key: Any, since: int, until: int | None = None) -> Any:
        """The value of one window, or with `until` the windows that start in between."""
        if until is None:
            return to_python(self._java.fetch(to_java(key), since))
        return Rows(self._java.fetch(to_java(key), _instant(since), _instant(until)))

    def backward_fetch(self, key: Any, since: int, until: int) -> Rows:
        return Rows(self._java.backwardFetch(to_java(key), _instant(since), _instant(until)))

    def fetch_range(self, lower: Any, upper: Any, since: int, until: int) -> Rows:
        return Rows(self._java.fetch(to_java(lower), to_java(upper), _instant(since), _instant(until)))

    def backward_fetch_range(self, lower: Any, upper: Any, since: int, until: int) -> Rows:
        return Rows(self._java.backwardFetch(to_java(lower), to_java(upper), _instant(since), _instant(until)))

    def fetch_all(self, since: int, until: int) -> Rows:
        return Rows(self._java.fetchAll(_instant(since), _instant(until)))

    def backward_fetch_all(self, since: int, until: int) -> Rows:
        return Rows(self._java.backwardFetchAll(_instant(since), _instant(until)))

    def all(self) -> Rows:
        return Rows(self._java.all())

    def backward_all(self) -> Rows:
        return Rows(self._java.backwardAll())


class Session:
    """A session store."""

    def __init__(self, java: Any) -> None:
        self._java = java
        self.name = str(java.name())

    def put(self, session: Windowed, value: Any) -> None:
        self._java.put(_session(session), to_java(value))

    def remove(self, session: Windowed) -> None:
        self._java.remove(_session(session))

    def fetch(self, key: Any) -> Rows:
        return Rows(self._java.fetch(to_java(key)))

    def backward_fetch(self, key: Any) -> Rows:
        return Rows(self._java.backwardFetch(to_java(key)))

    def fetch_range(self, lower: Any, upper: Any) -> Rows:
        return Rows(self._java.fetch(to_java(lower), to_java(upper)))

    def backward_fetch_range(self, lower: Any, upper: Any) -> Rows:
        return Rows(self._java.backwardFetch(to_java(lower), to_java(upper)))

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        return to_python(self._java.fetchSession(to_java(key), _instant(start), _instant(end)))

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Rows:
        return Rows(self._java.findSessions(to_java(key), _instant(earliest_end), _instant(latest_start)))

    def backward_find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Rows:
        return Rows(self._java.backwardFindSessions(to_java(key), _instant(earliest_end), _instant(latest_start)))

    def find_sessions_range(self, lower: Any, upper: Any, earliest_end: int, latest_start: int) -> Rows:
        times = (_instant(earliest_end), _instant(latest_start))
        return Rows(self._java.findSessions(to_java(lower), to_java(upper), *times))

    def backward_find_sessions_range(self, lower: Any, upper: Any, earliest_end: int, latest_start: int) -> Rows:
        times = (_instant(earliest_end), _instant(latest_start))
        return Rows(self._java.backwardFindSessions(to_java(lower), to_java(upper), *times))

    def find_sessions_ended(self, earliest_end: int, latest_end: int) -> Rows:
        return Rows(self._java.findSessions(jpype.JLong(earliest_end), jpype.JLong(latest_end)))


def _instant(milliseconds: int) -> Any:
    return J.Instant.ofEpochMilli(milliseconds)


def _session(session: Windowed) -> Any:
    return J.Windowed(to_java(session.key), J.SessionWindow(session.start, session.end))


def wrap_store(java: Any) -> Any:
    """The wrapper for a Java store, by its kind; None for a kind that offers no reading (a suppress buffer)."""
    if java is None:
        raise KeyError("no such store, or it is not connected to this processor")
    for interface, wrapper in (
        (J.VersionedKeyValueStore, Versioned),
        (J.KeyValueStore, KeyValue),
        (J.WindowStore, Window),
        (J.SessionStore, Session),
    ):
        if isinstance(java, interface):
            return wrapper(java)
    return None
