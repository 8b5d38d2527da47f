"""Where a schema registry is, and how it is used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from penstock.errors import ConfigError, nearest
from penstock.masking import masked, remember

#: how the subject of a schema is named, and what of
SUBJECTS = ("topic", "record", "topic_record")
#: of the options, those that say where the registry is and who asks: what others say is kept apart for each serde
_CONNECTION = ("url", "basic_auth", "bearer_token", "ca", "certificate", "key", "key_password", "timeout_ms")
SECRETS = ("basic_auth", "bearer_token", "key_password")
#: addresses that begin so are a registry in the memory of this process
MOCK = "mock://"


@dataclass(frozen=True, kw_only=True)
class SchemaRegistry:
    """A schema registry with Confluent's interface.

    ``url``: one address, or several with commas, which are asked in turn; ``mock://name`` is one in the memory of this process, for
    tests. None: that of the application's setting ``registry``. ``basic_auth``: ``user:password``. ``bearer_token``: a token that is sent
    as it is. ``ca``, ``certificate``, ``key``, ``key_password``: files of TLS.

    ``subject``: what a schema is registered under: ``topic`` (``orders-value``), ``record`` (its full name), ``topic_record``
    (``orders-shop.Order``). The latter two let several schemas live in one topic. ``register=False``: schemas must be there already.
    ``use_latest``: values are written with the newest schema of the subject. ``normalize``: the registry compares schemas in their
    normal form. ``id_in``: ``prefix``, five bytes in front of the value, or ``header``. ``cache_size``: schemas that are kept by id.
    ``client``: a `SchemaRegistryClient` of your own, in this process alone.

    >>> SchemaRegistry(url="https://me:hush@registry:8081", basic_auth="me:hush")
    SchemaRegistry(url='https://***@registry:8081')
    """

    url: str | None = None
    basic_auth: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    subject: str = "topic"
    register: bool = True
    use_latest: bool = False
    normalize: bool = False
    id_in: str = "prefix"
    cache_size: int = 1_000
    timeout_ms: int = 10_000
    client: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_one_of("subject", self.subject, SUBJECTS)
        _check_one_of("id_in", self.id_in, ("prefix", "header"))
        if self.url is not None and not self.url.startswith(("http://", "https://", MOCK)):
            raise ConfigError(
                f"the schema registry's url is {masked(self.url)!r}: it begins with http://, https:// or mock://"
            )
        if self.use_latest and self.register:
            object.__setattr__(self, "register", False)  # nothing of ours is registered: what is there is used
        if self.basic_auth is not None and ":" not in self.basic_auth:
            raise ConfigError("the schema registry's basic_auth is user:password")
        if self.basic_auth is not None and self.bearer_token is not None:
            raise ConfigError("the schema registry has basic_auth and bearer_token: give one of the two")
        for name in ("cache_size", "timeout_ms"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ConfigError(
                    f"the schema registry's {name} is {getattr(self, name)!r}: it must be a whole number from 1 on"
                )
        remember({f"registry.{name}.secret": getattr(self, name) for name in SECRETS})

    def __repr__(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.repr and getattr(self, f.name) != f.default}
        return f"SchemaRegistry({', '.join(f'{name}={masked(value)!r}' for name, value in shown.items())})"

    def __reduce__(self) -> Any:
        if self.client is not None:
            raise ConfigError(
                "a schema registry's client cannot travel to the workers of Spark: give its url (and basic_auth, ...) instead"
            )
        return _made, (self.options(),)

    @property
    def is_mock(self) -> bool:
        """Whether it is a registry in the memory of this process."""
        return self.url is not None and self.url.startswith(MOCK)

    @property
    def connection(self) -> tuple[Any, ...]:
        """What tells one connection from another."""
        return (*(getattr(self, name) for name in _CONNECTION), None if self.client is None else id(self.client))

    @property
    def digest(self) -> str:
        """A name of the registry that holds no secret: the same in the driver and in its workers."""
        return hashlib.sha256(str(masked(self.url)).encode()).hexdigest()[:12]

    @property
    def secrets(self) -> list[str]:
        """The names of the options that are set and hold a secret."""
        in_url = ["url"] if self.url is not None and masked(self.url) != self.url else []
        return [*in_url, *(name for name in SECRETS if getattr(self, name) is not None)]

    def options(self) -> dict[str, Any]:
        """Return the options that are set."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}

    def completed(self, default: SchemaRegistry | None) -> SchemaRegistry:
        """Return it with the address, and all that goes with that, of the application's, if it has none of its own.

        >>> SchemaRegistry(subject="record").completed(SchemaRegistry(url="http://here", basic_auth="me:hush")).connection[:2]
        ('http://here', 'me:hush')
        """
        if self.url is not None or self.client is not None or default is None:
            return self
        if self == SchemaRegistry():
            return default
        there = {name: getattr(default, name) for name in (*_CONNECTION, "client")}
        return replace(self, **there)


def registry_of(given: Any) -> SchemaRegistry | None:
    """Return what ``registry=`` of a serde, or the application's setting, stands for; None if there is none.

    >>> registry_of("http://localhost:8081"), registry_of({"url": "mock://a", "subject": "record"}), registry_of(True)
    (SchemaRegistry(url='http://localhost:8081'), SchemaRegistry(url='mock://a', subject='record'), SchemaRegistry())
    >>> registry_of({"user": "me"})
    Traceback (most recent call last):
    penstock.errors.ConfigError: a schema registry has no option 'user'...
    """
    if given is None or given is False or isinstance(given, SchemaRegistry):
        return given or None
    if given is True:
        return SchemaRegistry()
    if isinstance(given, str):
        return registry_of(json.loads(given)) if given.lstrip().startswith("{") else SchemaRegistry(url=given)
    if isinstance(given, Mapping):
        known = [f.name for f in fields(SchemaRegistry)]
        for name in given:
            if name not in known:
                raise ConfigError(
                    f"a schema registry has no option {name!r}{nearest(str(name), known)}: it has {', '.join(known)}"
                )
        return SchemaRegistry(**given)
    if hasattr(given, "get_schema"):
        return SchemaRegistry(client=given)
    raise ConfigError(
        f"registry={type(given).__name__}: give a URL, SchemaRegistry(url=...), or True for the application's"
    )


def _made(options: dict[str, Any]) -> SchemaRegistry:
    return SchemaRegistry(**options)


def _check_one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(
            f"the schema registry's {name} is {value!r}{nearest(str(value), choices)}: it is one of {', '.join(choices)}"
        )
