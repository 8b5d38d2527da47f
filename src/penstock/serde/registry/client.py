"""What is asked of a schema registry, through Confluent's client; which of its errors may pass, and what to do about the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from penstock.errors import RegistryError
from penstock.masking import masked
from penstock.serde.extras import need
from penstock.serde.registry.settings import SchemaRegistry

T = TypeVar("T")
_ASKED = "a schema registry"

#: (what was asked, the answer's code) → how often, in this process
REQUESTS: Counter[tuple[str, str]] = Counter()
_counting = Lock()
#: the code of no answer
UNREACHABLE = "unreachable"
#: answers of a registry that is there, but cannot answer now
_PASSING = (408, 429, 500, 502, 503, 504)
_mocks: dict[str, Any] = {}


class SchemaText(NamedTuple):
    """A schema as a registry has it. ``known``: name and text of all schemas that it refers to."""

    kind: str
    text: str
    known: tuple[tuple[str, str], ...] = ()


class SchemaIds(NamedTuple):
    """By what a registry knows a schema; it need not have a GUID."""

    id: int
    guid: str = ""


class NoSuchSchema(Exception):
    """The registry has no such schema, or subject."""


def take_requests() -> dict[tuple[str, str], int]:
    """Return what was asked of registries since the last call."""
    with _counting:
        taken = dict(REQUESTS)
        REQUESTS.clear()
    return taken


class RegistryClient:
    """A connection to a registry."""

    def __init__(self, settings: SchemaRegistry) -> None:
        self._settings = settings
        self._package = need("confluent_kafka.schema_registry", extra="registry", asked=_ASKED)
        self._client = settings.client if settings.client is not None else self._connected()

    def register(self, subject: str, schema: SchemaText, *, normalize: bool) -> SchemaIds:
        """Register a schema, and before it those that it refers to, under their names; return its ids."""
        made = self._schema(schema, self._references(schema, register=True))
        found = self._ask(
            "register",
            subject,
            lambda: self._client.register_schema_full_response(subject, made, normalize_schemas=normalize),
        )
        return SchemaIds(found.schema_id, found.guid or "")

    def lookup(self, subject: str, schema: SchemaText, *, normalize: bool) -> SchemaIds:
        """Return the ids of a schema that is registered already."""
        made = self._schema(schema, self._references(schema, register=False))
        found = self._ask(
            "lookup", subject, lambda: self._client.lookup_schema(subject, made, normalize_schemas=normalize)
        )
        return SchemaIds(found.schema_id, found.guid or "")

    def latest(self, subject: str) -> tuple[SchemaIds, SchemaText]:
        """Return the newest schema of a subject."""
        found = self._ask("latest", subject, lambda: self._client.get_latest_version(subject))
        return SchemaIds(found.schema_id, found.guid or ""), self._text(found.schema)

    def schema(self, number: int) -> SchemaText:
        """Return the schema that has an id."""
        return self._text(self._ask("schema", f"id {number}", lambda: self._client.get_schema(number)))

    def schema_of_guid(self, guid: str) -> SchemaText:
        """Return the schema that has a GUID."""
        return self._text(self._ask("schema", f"GUID {guid}", lambda: self._client.get_schema_by_guid(guid)))

    def _text(self, found: Any) -> SchemaText:
        known: dict[str, str] = {}
        self._follow(found.references or (), known)
        return SchemaText(found.schema_type or "AVRO", found.schema_str, tuple(known.items()))

    def _follow(self, references: Sequence[Any], known: dict[str, str]) -> None:
        for one in references:
            if one.name not in known:
                what = f"{one.subject} version {one.version}"
                there = self._ask("schema", what, partial(self._client.get_version, one.subject, one.version))
                self._follow(there.schema.references or (), known)
                known[one.name] = there.schema.schema_str

    def _schema(self, schema: SchemaText, references: list[Any]) -> Any:
        return self._package.Schema(schema.text, schema.kind, references)

    def _references(self, schema: SchemaText, *, register: bool) -> list[Any]:
        """Return references to the schemas that a schema names; each is in the registry under its name, or is put there."""
        found: dict[str, Any] = {}
        for name, text in schema.known:
            made = self._package.Schema(text, schema.kind, [found[other] for other in found if other in text])
            if register:
                self._ask("register", name, partial(self._client.register_schema_full_response, name, made))
            there = self._ask("lookup", name, partial(self._client.lookup_schema, name, made))
            found[name] = self._package.SchemaReference(name, name, there.version)
        return [reference for name, reference in found.items() if name in schema.text]

    def _ask(self, op: str, about: str, call: Callable[[], T]) -> T:
        code = "200"
        try:
            return call()
        except self._package.SchemaRegistryError as error:
            code = str(error.http_status_code)
            if error.http_status_code == 404:
                raise NoSuchSchema(about) from error
            raise self._refused(about, error) from error
        except Exception as error:
            code = UNREACHABLE
            raise RegistryError(
                f"the schema registry at {self._shown} does not answer ({type(error).__name__}: {error}), asked for {about}",
                code="REGISTRY_UNREACHABLE",
                retriable=True,
            ) from error
        finally:
            with _counting:
                REQUESTS[op, code] += 1

    def _refused(self, about: str, error: Any) -> RegistryError:
        status, said = (
            error.http_status_code,
            f"the schema registry at {self._shown} answers {error}, asked for {about}",
        )
        if status in _PASSING:
            return RegistryError(said, code="REGISTRY_UNAVAILABLE", retriable=True)
        if status in (401, 403):
            return RegistryError(
                f"{said}\n  remedy:   give SchemaRegistry(basic_auth='user:password'), bearer_token= or a certificate with the right to it",
                code="REGISTRY_NOT_AUTHORIZED",
            )
        if status == 409:
            return RegistryError(
                f"{said}\n  remedy:   the schema is not compatible with those before it: give new fields a default and keep the types of "
                "old ones, write to another topic, or change the compatibility of the subject, if nobody needs the old values",
                code="REGISTRY_INCOMPATIBLE",
            )
        return RegistryError(said, code="REGISTRY_REFUSED")

    @property
    def _shown(self) -> str:
        return str(masked(self._settings.url or "its client"))

    def _connected(self) -> Any:
        given = self._settings
        assert given.url is not None
        if given.is_mock:
            if given.url not in _mocks:
                _mocks[given.url] = self._package.SchemaRegistryClient.new_client({"url": given.url})
            return _mocks[given.url]
        options = {
            "url": given.url,
            "basic.auth.user.info": given.basic_auth,
            "ssl.ca.location": given.ca,
            "ssl.certificate.location": given.certificate,
            "ssl.key.location": given.key,
            "ssl.key.password": given.key_password,
            "timeout": given.timeout_ms / 1000,
            "max.retries": 0,  # the loop tries again, says so, and can be stopped
            "cache.capacity": given.cache_size,
        }
        if given.bearer_token is not None:
            options |= {
                "bearer.auth.credentials.source": "STATIC_TOKEN",
                "bearer.auth.token": given.bearer_token,
                "bearer.auth.logical.cluster": "",
            }
        return self._package.SchemaRegistryClient({name: value for name, value in options.items() if value is not None})
