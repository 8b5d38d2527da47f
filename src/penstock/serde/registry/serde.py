"""`RegistrySerde`: a serde whose schema is in a registry. It writes once it is bound to a topic, by which its subject is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import (
    ConfigError,
    DeserializationError,
    PenstockError,
    RegistryError,
    SerializationError,
    TopologyError,
)
from penstock.serde.base import Serde
from penstock.serde.defaults import replaced
from penstock.serde.registry.catalog import Catalog, catalog_of, decode_schema
from penstock.serde.registry.forms import ReadBody, ReadColumn, SchemaBranch, SchemaForm, WriteBody, WriteColumn
from penstock.serde.registry.framing import ID, ID_SIZE, guid_frame, id_frame, schema_named
from penstock.serde.registry.settings import SchemaRegistry


class RegistrySerde(Serde[Any]):
    """The serde of a form whose schemas are in a registry.

    ``topic`` and ``part`` (key or value): where its values are written, by which its subject is named. The nodes and stores of a
    topology bind it (`bound`); by hand: `bound_to`.
    """

    __slots__ = ("form", "part", "registry", "topic")

    form: SchemaForm
    registry: SchemaRegistry
    topic: str | None
    part: str

    def __init__(
        self, form: SchemaForm, registry: SchemaRegistry, topic: str | None = None, part: str = "value"
    ) -> None:
        name = f"{form.name.removesuffix(')')}, registry)"
        put = object.__setattr__
        for slot, value in (("form", form), ("registry", registry), ("topic", topic), ("part", part)):
            put(self, slot, value)
        super().__init__(
            self._serializer(name), self._deserializer(), name, _recipe=(RegistrySerde, (form, registry, topic, part))
        )

    def bound_to(self, topic: str, *, key: bool = False) -> RegistrySerde:
        """Return the serde of the values, or of the keys, of a topic."""
        return RegistrySerde(self.form, self.registry, topic, "key" if key else "value")

    @property
    def in_header(self) -> bool:
        """Whether ids are in headers, on topics."""
        return self.registry.id_in == "header"

    def catalog(self) -> Catalog:
        """Return what this process knows of the registry."""
        if self.registry.url is None and self.registry.client is None:
            raise ConfigError(
                f"{self!r} asks for the application's schema registry, and there is none: set registry='http://...' in App(...), "
                "PENSTOCK_REGISTRY or [tool.penstock], or give the serde registry='http://...'"
            )
        return catalog_of(self.registry)

    def branches(self) -> tuple[SchemaBranch, ...]:
        """Return the schemas that it writes."""
        return self.form.branches(split=self.registry.subject != "topic")

    def subject(self, branch: SchemaBranch) -> str:
        """Return what a schema is registered under.

        Raises ``SerializationError`` where that cannot be known.
        """
        named = self.registry.subject
        if named != "topic" and not branch.name:
            raise SerializationError(
                f"{self!r}: the schema has no name, which subject={named!r} needs: name it, or use subject='topic'"
            )
        if named == "record":
            return branch.name
        if self.topic is None:
            raise SerializationError(
                f"{self!r} does not know its topic, by which the subject of its schema is named: use it in a topology, write "
                "serde.bound_to('orders'), or use SchemaRegistry(subject='record')"
            )
        return f"{self.topic}-{self.part}" if named == "topic" else f"{self.topic}-{branch.name}"

    def resolve(self) -> None:
        """Ask for the ids of all that it writes."""
        for branch in self.branches():
            self.catalog().written(self.registry, self.subject(branch), branch.schema)

    def _opened(self, branch: SchemaBranch) -> tuple[bytes, WriteBody]:
        """Return what stands in front of values of a branch, and what writes them."""
        written = self.catalog().written(self.registry, self.subject(branch), branch.schema)
        latest = decode_schema(written.latest) if written.latest else None
        body = self.form.writer(branch, latest)
        if not self.in_header:
            return id_frame(written.ids.id) + branch.suffix, body
        if not written.ids.guid:
            raise RegistryError(
                "the schema registry gives its schemas no GUID, which ids in headers need: use id_in='prefix'",
                code="REGISTRY_NO_GUID",
            )
        return guid_frame(written.ids.guid) + branch.suffix, body

    def column_reader(self, number: int) -> ReadColumn:
        """Return what reads columns of values whose schema has an id. Only Avro has one."""
        written = self.catalog().schema(number)
        if written.kind != self.form.kind:
            raise DeserializationError(f"the values have the schema {number}, which is {written.kind}")
        return self.form.column_reader(written, self.branches())

    def column_writer(self) -> WriteColumn | None:
        """Return what writes columns, None if they are written one by one. Only Avro has one."""
        branch = self.branches()[0]
        frame, _ = self._opened(branch)
        return None if self.registry.use_latest else self.form.column_writer(branch, frame)

    def _serializer(self, name: str) -> Callable[[Any], bytes]:
        if not self.form.is_union:
            return self._serializer_of(None)
        writers: dict[Any, Callable[[Any], bytes]] = {}
        find, names = self.branches, ""

        def serialize(value: Any) -> bytes:
            nonlocal names
            if not writers:
                branches = find()
                names = ", ".join(branch.name for branch in branches)
                writers.update({branch.value_type: self._serializer_of(branch) for branch in branches})
            write = writers.get(value.__class__) or (next(iter(writers.values())) if len(writers) == 1 else None)
            if write is None:
                raise SerializationError(f"Serdes.{name}: the value is a {type(value).__name__}, not one of {names}")
            return write(value)

        return serialize

    def _serializer_of(self, branch: SchemaBranch | None) -> Callable[[Any], bytes]:
        frame = b""
        body: WriteBody = _unopened

        def serialize(value: Any) -> bytes:
            nonlocal frame, body
            if not frame:
                frame, body = self._opened(branch or self.branches()[0])
            return frame + body(value)

        return serialize

    def _deserializer(self) -> Callable[[bytes], Any]:
        readers: dict[bytes, ReadBody] = {}
        find = self._reader_of

        def deserialize(data: bytes) -> Any:
            read = readers.get(data[:ID_SIZE])
            if read is not None:
                return read(data, ID_SIZE)
            named, at = schema_named(data)
            read = find(named)
            if data[0] == ID:  # GUIDs may begin alike
                readers[data[:ID_SIZE]] = read
            return read(data, at)

        return deserialize

    def _reader_of(self, named: int | str) -> ReadBody:
        catalog, branches = self.catalog(), self.branches()
        for branch in branches:
            catalog.offer(branch.schema)
        written = catalog.schema(named)
        if written.kind != self.form.kind:
            raise DeserializationError(
                f"the value has the schema {named}, which is {written.kind}, but {self!r} reads {self.form.kind}"
            )
        try:
            return self.form.reader(written, branches)
        except TopologyError as error:
            raise DeserializationError(f"the value has the schema {named}, which cannot be read: {error}") from error


def bound(serde: Any, topic: str | None, part: str, default: SchemaRegistry | None) -> Any:
    """Return a serde for the keys or values of a topic; one inside another is bound as well, one without a registry is as it was.

    >>> from penstock.serde import Serdes
    >>> serde = Serdes.windowed(Serdes.avro("long", registry=True), 5)
    >>> inner = bound(serde, "counts", "key", SchemaRegistry(url="mock://a")).inner
    >>> inner.topic, inner.part, inner.registry, bound(Serdes.string, "counts", "key", None) is Serdes.string
    ('counts', 'key', SchemaRegistry(url='mock://a'), True)
    """

    def bind(one: Serde[Any]) -> Serde[Any] | None:
        if not isinstance(one, RegistrySerde):
            return None
        return RegistrySerde(one.form, one.registry.completed(default), topic if one.topic is None else one.topic, part)

    return replaced(serde, bind)


def header_parts(key: Any, value: Any) -> dict[str, bool]:
    """Return which of the serdes of a topic write the ids of their schemas to headers; whether the places of messages go with them."""
    found = {"key": registry_serdes(key), "value": registry_serdes(value)}
    return {part: serdes[0].form.kind == "PROTOBUF" for part, serdes in found.items() if serdes and serdes[0].in_header}


def registry_serdes(serde: Any) -> list[RegistrySerde]:
    """Return the serdes with a registry in a serde: itself, or those inside it."""
    if isinstance(serde, RegistrySerde):
        return [serde]
    return (
        [inner for argument in serde.__reduce__()[1] for inner in registry_serdes(argument)]
        if isinstance(serde, Serde)
        else []
    )


def _unopened(value: Any) -> bytes:
    raise PenstockError("a serde with a registry writes before its schema is known")
