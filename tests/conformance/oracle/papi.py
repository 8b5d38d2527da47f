"""Penstock's Processor API on Kafka's: processors, context and stores are thin wrappers, one Java call each."""

from collections.abc import Callable, Iterator
from typing import Any

from penstock.durations import millis
from penstock.record import Record, RecordMetadata, Windowed

from .convert import duration, from_record, proxy, to_java, to_key_value, to_list, to_python, to_record, to_serde
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
    interface = "FixedKeyProcessor" if fixed_key else "Processor"

    def get() -> Any:
        processor = supplier()
        return proxy(
            interface,
            init=lambda context: _call(processor, "init", Context(context, fixed_key)),
            process=lambda record: processor.process(from_record(record)),
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


class Window:
    """A window store, plain or timestamped."""

    def __init__(self, java: Any) -> None:
        self._java = java
        self.name = str(java.name())

    def put(self, key: Any, value: Any, timestamp: int) -> None:
        self._java.put(to_java(key), to_java(value), timestamp)

    def fetch(self, *args: Any) -> Any:
        """`fetch(key, time)`, `fetch(key, since, until)` or `fetch(from, to, since, until)`."""
        if len(args) == 2:
            return to_python(self._java.fetch(to_java(args[0]), args[1]))
        return self._fetch(self._java.fetch, args)

    def backward_fetch(self, *args: Any) -> Rows:
        return self._fetch(self._java.backwardFetch, args)

    def fetch_all(self, since: int, until: int) -> Rows:
        return Rows(self._java.fetchAll(_instant(since), _instant(until)))

    def backward_fetch_all(self, since: int, until: int) -> Rows:
        return Rows(self._java.backwardFetchAll(_instant(since), _instant(until)))

    def all(self) -> Rows:
        return Rows(self._java.all())

    def backward_all(self) -> Rows:
        return Rows(self._java.backwardAll())

    @staticmethod
    def _fetch(method: Any, args: tuple[Any, ...]) -> Rows:
        *keys, since, until = args
        return Rows(method(*[to_java(key) for key in keys], _instant(since), _instant(until)))


class Session:
    """A session store."""

    def __init__(self, java: Any) -> None:
        self._java = java
        self.name = str(java.name())

    def put(self, session: Windowed, value: Any) -> None:
        self._java.put(_session(session), to_java(value))

    def remove(self, session: Windowed) -> None:
        self._java.remove(_session(session))

    def fetch(self, *keys: Any) -> Rows:
        return Rows(self._java.fetch(*[to_java(key) for key in keys]))

    def backward_fetch(self, *keys: Any) -> Rows:
        return Rows(self._java.backwardFetch(*[to_java(key) for key in keys]))

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        return to_python(self._java.fetchSession(to_java(key), _instant(start), _instant(end)))

    def find_sessions(self, *args: Any) -> Rows:
        """`find_sessions(key, earliest_end, latest_start)`, or with a range of keys."""
        return Window._fetch(self._java.findSessions, args)

    def backward_find_sessions(self, *args: Any) -> Rows:
        return Window._fetch(self._java.backwardFindSessions, args)


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
