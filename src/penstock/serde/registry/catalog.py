"""What a process knows of a registry: the ids of the schemas that it writes, and the schemas of the ids that it reads.

The driver asks for the ids of all that an application writes before an epoch, and they travel with its request (`learn`); a lane asks
for what is still unknown. Nothing that is known is asked for again: a registry never gives an id to another schema.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from threading import RLock
from typing import Any, NamedTuple, TypeAlias

import msgspec

from penstock.errors import DeserializationError, RegistryError
from penstock.serde.registry.client import NoSuchSchema, RegistryClient, SchemaIds, SchemaText
from penstock.serde.registry.settings import SchemaRegistry

#: digest of the registry, subject, digest of the schema, id, GUID, and text of the schema to write with, if it is another
KnownId: TypeAlias = tuple[str, str, str, int, str, str]


#: ends the digest of a schema that is written as the newest one of its subject
LATEST = "+"

encode_schema = msgspec.json.Encoder().encode
decode_schema = msgspec.json.Decoder(SchemaText).decode


class WrittenSchema(NamedTuple):
    """By which ids a schema is known under a subject; ``latest``: the schema to write with instead, as JSON."""

    ids: SchemaIds
    latest: str = ""


class Catalog:
    """What is known of one registry."""

    def __init__(self, settings: SchemaRegistry) -> None:
        self._settings = settings
        self._client: RegistryClient | None = None
        self._lock = RLock()
        self._written: dict[tuple[str, str], WrittenSchema] = {}
        self._schemas: OrderedDict[int | str, SchemaText] = OrderedDict()
        #: ids that the registry does not have, asked for since the last epoch began
        self._missing: set[int | str] = set()
        #: the schemas of this program, by their digests
        self._own: dict[str, SchemaText] = {}

    @property
    def digest(self) -> str:
        """The name of the registry."""
        return self._settings.digest

    def written(self, settings: SchemaRegistry, subject: str, schema: SchemaText) -> WrittenSchema:
        """Return the ids of a schema under a subject; it is registered, if it may be and is not yet."""
        digest = schema_digest(schema)
        key = (subject, f"{digest}{LATEST}" if settings.use_latest else digest)
        with self._lock:
            self._own.setdefault(digest, schema)
            found = self._written.get(key)
            if found is None:
                found = self._written[key] = self._ask_written(settings, subject, schema)
            return found

    def _ask_written(self, settings: SchemaRegistry, subject: str, schema: SchemaText) -> WrittenSchema:
        client = self._connected()
        try:
            if settings.use_latest:
                ids, latest = client.latest(subject)
                return WrittenSchema(ids, encode_schema(latest).decode())
            if settings.register:
                return WrittenSchema(client.register(subject, schema, normalize=settings.normalize))
            return WrittenSchema(client.lookup(subject, schema, normalize=settings.normalize))
        except NoSuchSchema as error:
            raise RegistryError(
                f"the schema registry has not this schema under the subject {subject}, and may not be given it (register=False): "
                f"{schema.text[:300]}\n  remedy:   register it there, name subjects otherwise (subject='record'), or allow it to be",
                code="REGISTRY_NOT_REGISTERED",
            ) from error

    def schema(self, named: int | str) -> SchemaText:
        """Return the schema that an id or a GUID names."""
        with self._lock:
            found = self._schemas.get(named) or self._own_schema(named)
            if found is not None:
                return found
            if named in self._missing:
                raise self._unknown(named)
            client = self._connected()
            try:
                found = client.schema(named) if isinstance(named, int) else client.schema_of_guid(named)
            except NoSuchSchema:
                self._missing.add(named)
                raise self._unknown(named) from None
            self._keep(named, found)
            return found

    def latest(self, subject: str) -> tuple[SchemaIds, SchemaText]:
        """Return the newest schema of a subject; it is asked for each time."""
        try:
            return self._connected().latest(subject)
        except NoSuchSchema as error:
            raise RegistryError(
                f"the schema registry has no subject {subject}: register a schema there first",
                code="REGISTRY_NOT_REGISTERED",
            ) from error

    def known(self) -> list[KnownId]:
        """Return the ids of what is written, to be learnt by others."""
        digest = self._settings.digest
        with self._lock:
            self._missing.clear()
            return [
                (digest, subject, schema, *found.ids, found.latest)
                for (subject, schema), found in self._written.items()
            ]

    def learn(self, rows: Iterable[KnownId]) -> None:
        """Know what another process has asked for."""
        with self._lock:
            self._missing.clear()
            for _, subject, schema, number, guid, latest in rows:
                self._written[subject, schema] = WrittenSchema(SchemaIds(number, guid), latest)

    def offer(self, schema: SchemaText) -> None:
        """Know a schema of this program: whose id another process has asked for need not be asked for what it is."""
        with self._lock:
            self._own.setdefault(schema_digest(schema), schema)

    def _own_schema(self, named: int | str) -> SchemaText | None:
        for (_, digest), found in self._written.items():
            if named in found.ids and not found.latest and digest in self._own:
                self._keep(named, self._own[digest])
                return self._own[digest]
        return None

    def _keep(self, named: int | str, schema: SchemaText) -> None:
        self._schemas[named] = schema
        while len(self._schemas) > self._settings.cache_size:
            self._schemas.popitem(last=False)

    def _unknown(self, named: int | str) -> DeserializationError:
        what = f"id {named}" if isinstance(named, int) else f"GUID {named}"
        return DeserializationError(f"the schema registry has no schema with the {what}, which the bytes name")

    def _connected(self) -> RegistryClient:
        if self._client is None:
            self._client = RegistryClient(self._settings)
        return self._client


def schema_digest(schema: SchemaText) -> str:
    """Return a short name of a schema."""
    return hashlib.sha256(
        "\0".join([schema.kind, schema.text, *(text for _, text in schema.known)]).encode()
    ).hexdigest()[:20]


_catalogs: dict[tuple[Any, ...], Catalog] = {}
#: digest of a registry → what the driver has told of it
_learnt: dict[str, list[KnownId]] = {}
_making = RLock()


def catalog_of(settings: SchemaRegistry) -> Catalog:
    """Return what this process knows of a registry."""
    with _making:
        connection = settings.connection
        if connection not in _catalogs:
            _catalogs[connection] = Catalog(settings)
            _catalogs[connection].learn(_learnt.get(settings.digest, ()))
        return _catalogs[connection]


def learn(rows: Iterable[KnownId]) -> None:
    """Know what the driver has asked for, of all registries."""
    with _making:
        told: dict[str, list[KnownId]] = {}
        for row in rows:
            told.setdefault(row[0], []).append(row)
        _learnt.update(told)
        for catalog in _catalogs.values():
            catalog.learn(told.get(catalog.digest, ()))
