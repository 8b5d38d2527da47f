"""Values, functions and serdes between Python and Java.

Java holds real Java types, so that Kafka's own serdes and formats are what is compared with: str is String, int is
Long, float is Double, bytes is byte[], bool is Boolean, UUID is UUID, Windowed is Windowed. A Python value of any other
type travels through Java untouched behind a proxy, for serdes written in Python.

On the Java side an int is always a Long and a float always a Double, whichever serde is in force: `int32` and
`float32` are Kafka's serdes behind a step that narrows and widens. So a lambda's result needs no type to be told.
"""

import inspect
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import jpype

from penstock.record import Record, ValueAndTimestamp, VersionedRecord, Windowed

from .jvm import J

_LONG_MAX = 2**63 - 1


class OracleError(Exception):
    """Kafka Streams raised; `java` names the innermost Java exception, the cause is the Python one if there is one."""

    def __init__(self, message: str, java: str) -> None:
        super().__init__(message)
        self.java = java


_raised: list[BaseException] = []


def last_raised() -> BaseException | None:
    """What a Python function that Java called raised last."""
    return _raised[-1] if _raised else None


@contextmanager
def java_errors() -> Iterator[None]:
    """Java exceptions leave this block as OracleError; if a Python function raised first, that is the cause."""
    try:
        yield
    except jpype.JException as error:
        by_python = _raised and any(_name(link).endswith("PyExceptionProxy") for link in _chain(error))
        raise surface(error) from (_raised[-1] if by_python else error)
    finally:
        _raised.clear()


def surface(error: jpype.JException) -> OracleError:
    """What to tell of a Java exception: its chain without the wrappers of reflection and of the bridge."""
    chain = _chain(error)
    named = [link for link in chain if not _name(link).endswith(("PyExceptionProxy", "InvocationTargetException"))]
    text = " <- ".join(f"{link.getClass().getSimpleName()}: {link.getMessage()}" for link in named[:3])
    return OracleError(text, _name((named or chain)[-1]))


def _chain(error: Any) -> list[Any]:
    chain = [error]
    while (link := chain[-1].getCause()) is not None and len(chain) < 20:
        chain.append(link)
    return chain


def _name(error: Any) -> str:
    return str(error.getClass().getName())


# --- values ---------------------------------------------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


def _windowed(java: Any) -> Windowed:
    window = java.window()
    return Windowed(to_python(java.key()), int(window.start()), int(window.end()))


def _uuid_of(java: Any) -> uuid.UUID:
    return uuid.UUID(str(java.toString()))


def _value_and_timestamp(java: Any) -> ValueAndTimestamp:
    return ValueAndTimestamp(to_python(java.value()), int(java.timestamp()))


def _versioned_record(java: Any) -> VersionedRecord:
    until = java.validTo()
    return VersionedRecord(
        to_python(java.value()), int(java.timestamp()), int(until.get()) if until.isPresent() else None
    )


_to_python: dict[type, Callable[[Any], Any]] = {}


def _rule_for(java: Any) -> Callable[[Any], Any]:
    rules: list[tuple[Any, Callable[[Any], Any]]] = [
        (J.String, str),
        (J.Boolean, bool),
        (J.Long, int),
        (J.Integer, int),
        (J.Double, float),
        (J.Float, float),
        (jpype.JArray(jpype.JByte), bytes),
        (J.UUID, _uuid_of),
        (J.Windowed, _windowed),
        (J.ValueAndTimestamp, _value_and_timestamp),
        (J.VersionedRecord, _versioned_record),
        (J.ValueTimestampHeaders, lambda java: to_python(java.value())),  # what the stores of stream-stream joins hold
        (J.KeyValue, lambda pair: (to_python(pair.key), to_python(pair.value))),
        (J["org.apache.kafka.common.utils.Bytes"], lambda java: bytes(java.get())),
    ]
    for kind, rule in rules:
        if isinstance(java, kind):
            return rule
    return _same


def to_python(java: Any) -> Any:
    """A Java value as the Python value that stands for it."""
    if java is None:
        return None
    kind = type(java)
    rule = _to_python.get(kind)
    if rule is None:
        rule = _to_python[kind] = _rule_for(java)
    return rule(java)


def _to_java_windowed(windowed: Windowed) -> Any:
    if windowed.end == _LONG_MAX:
        window = J.UnlimitedWindow(windowed.start)
    elif windowed.end > windowed.start:
        window = J.TimeWindow(windowed.start, windowed.end)
    else:
        window = J.SessionWindow(windowed.start, windowed.end)
    return J.Windowed(to_java(windowed.key), window)


_to_java: dict[type, Callable[[Any], Any]] = {
    str: lambda value: J.String(value),
    bool: lambda value: J.Boolean(value),
    int: lambda value: J.Long(value),
    float: lambda value: J.Double(value),
    bytes: lambda value: jpype.JArray(jpype.JByte)(value),
    uuid.UUID: lambda value: J.UUID.fromString(str(value)),
    Windowed: _to_java_windowed,
    ValueAndTimestamp: lambda pair: J.ValueAndTimestamp.make(to_java(pair.value), pair.timestamp),
}


def to_java(value: Any) -> Any:
    """A Python value as the Java value that stands for it."""
    if value is None:
        return None
    rule = _to_java.get(type(value))
    if rule is not None:
        return rule(value)
    if isinstance(value, (jpype.JObject, jpype.JProxy)):
        return value
    return jpype.JProxy("java.io.Serializable", inst=value, convert=True)


def to_key_value(pair: Any) -> Any:
    """A (key, value) pair as a KeyValue."""
    if pair is None:
        return None
    key, value = pair
    return J.KeyValue(to_java(key), to_java(value))


def to_list(items: Iterable[Any], each: Callable[[Any], Any] = to_java) -> Any:
    """An iterable as an ArrayList."""
    if items is None:
        return None
    result = J.ArrayList()
    for item in items:
        result.add(each(item))
    return result


def to_dict(java: Any) -> dict[str, str]:
    """A Map of strings as a dict."""
    return {str(entry.getKey()): str(entry.getValue()) for entry in java.entrySet()}


def to_headers(headers: Iterable[tuple[str, bytes | None]]) -> Any:
    """Headers as RecordHeaders."""
    result = J.RecordHeaders()
    for name, value in headers:
        result.add(name, None if value is None else jpype.JArray(jpype.JByte)(value))
    return result


def from_headers(java: Any) -> tuple[tuple[str, bytes | None], ...]:
    """RecordHeaders as a tuple of (name, bytes)."""
    return tuple(
        (str(header.key()), None if (value := header.value()) is None else bytes(value)) for header in java.toArray()
    )


def from_record(java: Any, kind: type[Record[Any, Any]] = Record) -> Record[Any, Any]:
    """A Processor API record of Java as ours."""
    return kind(to_python(java.key()), to_python(java.value()), int(java.timestamp()), from_headers(java.headers()))


def to_record(record: Record[Any, Any]) -> Any:
    """A record of ours as Java's."""
    return J.Record(
        to_java(record.key), to_java(record.value), jpype.JLong(record.timestamp), to_headers(record.headers)
    )


def duration(milliseconds: int) -> Any:
    """Milliseconds as a Duration."""
    return J.Duration.ofMillis(milliseconds)


# --- functions ------------------------------------------------------------------------------------------------------


def proxy(interface: str, **methods: Callable[..., Any]) -> Any:
    """A Java object of that interface whose methods are Python functions; what they raise is kept for `surface`."""
    kind = J[interface] if "." in interface else getattr(J, interface)
    return jpype.JProxy(kind, dict={name: _guarded(method) for name, method in methods.items()})


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        try:
            return function(*args)
        except jpype.JException:
            raise
        except Exception as error:
            _raised.append(error)
            raise

    return call


def function(interface: str, python: Callable[..., Any], *, method: str = "apply", result: Any = to_java) -> Any:
    """A Java function of that interface which calls a Python one, arguments and result converted."""

    def call(*args: Any) -> Any:
        return result(python(*[to_python(arg) for arg in args]))

    return proxy(interface, **{method: call})


def arity(python: Callable[..., Any]) -> int:
    """How many positional arguments a callable takes (1 if it will not say)."""
    try:
        parameters = inspect.signature(python).parameters.values()
    except (TypeError, ValueError):
        return 1
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters)


# --- serdes ---------------------------------------------------------------------------------------------------------

_serdes: dict[int, tuple[Any, Any]] = {}  # by identity; the Penstock serde is kept beside, so that its id stays its own


def to_serde(serde: Any) -> Any:
    """Kafka's serde for one of ours; None stays null, which leaves the choice to Kafka."""
    if serde is None:
        return None
    if id(serde) not in _serdes:
        _serdes[id(serde)] = (serde, _make_serde(serde))
    return _serdes[id(serde)][1]


def serialize(serde: Any, topic: str, value: Any) -> bytes | None:
    """The bytes that Kafka makes of a Python value."""
    return to_python(_invoke("Serializer", "serialize", to_serde(serde).serializer(), topic, to_java(value)))


def deserialize(serde: Any, topic: str, data: bytes | None) -> Any:
    """The Python value of bytes that Kafka reads."""
    return to_python(_invoke("Deserializer", "deserialize", to_serde(serde).deserializer(), topic, to_java(data)))


def _invoke(interface: str, name: str, target: Any, topic: str, value: Any) -> Any:
    """Call through Java: a serializer that is a Python proxy shows its methods to Java only."""
    kind = getattr(J, interface).class_
    argument = J.Object.class_ if interface == "Serializer" else jpype.JArray(jpype.JByte).class_
    return kind.getMethod(name, J.String.class_, argument).invoke(target, J.String(topic), value)


def _make_serde(serde: Any) -> Any:
    if hasattr(serde, "inner"):
        inner = to_serde(serde.inner)
        size = getattr(serde, "size", None)
        if type(serde).__name__.startswith("Session"):
            return J["org.apache.kafka.streams.kstream.WindowedSerdes$SessionWindowedSerde"](inner)
        return J["org.apache.kafka.streams.kstream.WindowedSerdes$TimeWindowedSerde"](inner, size or _LONG_MAX)
    serdes = J["org.apache.kafka.common.serialization.Serdes"]
    plain = {
        "string": serdes.String,
        "bytes": serdes.ByteArray,
        "int64": serdes.Long,
        "float64": serdes.Double,
        "boolean": serdes.Boolean,
        "uuid": serdes.UUID,
        "void": serdes.Void,
    }
    if serde.name in plain:
        return plain[serde.name]()
    if serde.name == "int32":
        return _through(serdes.Integer(), lambda value: J.Integer(int(value)))
    if serde.name == "float32":
        return _through(serdes.Float(), lambda value: J.Float(float(value)))
    return _python_serde(serde)


def _through(inner: Any, narrow: Callable[[Any], Any]) -> Any:
    """Kafka's serde, given the narrow Java type and giving the wide one."""
    serializer, deserializer = inner.serializer(), inner.deserializer()
    return _serde_of(
        lambda topic, value: serializer.serialize(topic, narrow(value)),
        lambda topic, data: to_java(to_python(deserializer.deserialize(topic, data))),
    )


def _python_serde(serde: Any) -> Any:
    """A serde whose two functions are Python."""
    return _serde_of(
        lambda topic, value: to_java(serde.serialize(to_python(value))),
        lambda topic, data: to_java(serde.deserialize(bytes(data))),
    )


def _serde_of(serialize: Callable[[Any, Any], Any], deserialize: Callable[[Any, Any], Any]) -> Any:
    def write(topic: Any, *args: Any) -> Any:  # (topic, value) or (topic, headers, value)
        return None if args[-1] is None else serialize(topic, args[-1])

    def read(topic: Any, *args: Any) -> Any:  # (topic, bytes), (topic, headers, bytes or ByteBuffer)
        data = args[-1]
        if data is None:
            return None
        if isinstance(data, J["java.nio.ByteBuffer"]):
            data = J["org.apache.kafka.common.utils.Utils"].toNullableArray(data)
        return deserialize(topic, data)

    serializer = proxy("Serializer", serialize=write)
    deserializer = proxy("Deserializer", deserialize=read)
    return J["org.apache.kafka.common.serialization.Serdes"].serdeFrom(serializer, deserializer)
