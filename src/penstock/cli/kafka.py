"""What the commands that talk to Kafka share: how to reach the cluster, and bytes as text."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from uuid import UUID

import typer

from penstock.cli.exits import WrongUse
from penstock.errors import PenstockError, RegistryError, SerializationError
from penstock.masking import is_secret
from penstock.serde import Serde, Serdes
from penstock.serde.registry.as_written import reader_as_written, serde_as_registered
from penstock.serde.registry.settings import SchemaRegistry, registry_of

if TYPE_CHECKING:
    from penstock.log.kafka import KafkaLog

BootstrapOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "--bootstrap-servers",
        "-b",
        help="host:port of the cluster. Default: the setting bootstrap_servers.",
        show_default=False,
    ),
]
ClientOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        metavar="NAME=VALUE",
        help="A client setting, as security.protocol=SSL; sasl.password=@FILE is read from a file.",
        show_default=False,
    ),
]  # fmt: skip


RegistryOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="Schema registry of the form registry. Default: the setting.",
        show_default=False,
    ),
]


class BadInput(PenstockError):
    """Something that was read, from a file or a topic, cannot be used."""


class BadOption(BadInput, WrongUse):
    """Something given on the command line cannot be used."""


@contextmanager
def connected(bootstrap: str | None, client: list[str] | None, timeout: float = 5) -> Iterator[KafkaLog]:
    """Reach the cluster that is named, or that the settings of this folder and environment name."""
    from penstock.config import load
    from penstock.log.kafka import KafkaLog

    settings = load({}, pyproject=Path("pyproject.toml"))
    kafka = settings["kafka"] | client_settings(client)
    log = KafkaLog(bootstrap or settings["bootstrap_servers"], kafka, timeout=timeout)
    try:
        yield log
    finally:
        log.close()


def client_settings(given: Iterable[str] | None) -> dict[str, str]:
    """Read the options ``--client``; a value that begins with ``@`` is in the file of that name.

    >>> client_settings(["client.id=me"])
    {'client.id': 'me'}
    """
    found = pairs(given or (), "--client")
    for name, value in found.items():
        if value.startswith("@"):
            try:
                found[name] = Path(value[1:]).read_text().strip()
            except OSError as error:
                raise BadOption(f"--client {name}={value}: the file cannot be read: {error.strerror}") from error
        elif is_secret(name):
            raise BadOption(
                f"--client {name}=...: others on this machine see what is on a command line; write {name}=@FILE, "
                "or set it below [tool.penstock.kafka] in pyproject.toml"
            )
    return found


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """Read options of the form name=value.

    >>> pairs(["retention.ms=-1"], "--config")
    {'retention.ms': '-1'}
    """
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise BadOption(f"{option}: write name=value")
        found[name] = value
    return found


class SerdeName(StrEnum):
    """How bytes are to be read and written: the names of serdes."""

    string = "string"
    json = "json"
    int32 = "int32"
    int64 = "int64"
    float32 = "float32"
    float64 = "float64"
    boolean = "boolean"
    uuid = "uuid"
    bytes = "bytes"
    windowed = "windowed"
    registry = "registry"


def _unwindowed(data: bytes) -> dict[str, Any]:
    window = Serdes.windowed(Serdes.string, None).deserialize(data)
    return {"key": window.key, "start": window.start}


def chosen_registry() -> SchemaRegistry:
    """Return the schema registry that the settings of this folder and environment name."""
    from penstock.config import load

    found = registry_of(load({}, pyproject=Path("pyproject.toml"))["registry"])
    if found is None:
        raise BadOption("the form registry needs a schema registry: --registry http://..., or the setting registry")
    return found


def use_registry(url: str | None) -> None:
    """Let this command use another schema registry than the settings name."""
    if url is not None:
        os.environ["PENSTOCK_REGISTRY"] = url


@lru_cache(maxsize=1)
def _reader_as_written() -> Callable[[bytes], Any]:
    return reader_as_written(chosen_registry())


@lru_cache(maxsize=64)
def _serde_as_registered(topic: str, part: str) -> Serde[Any]:
    return serde_as_registered(chosen_registry(), topic, part)


#: bytes to plain data, for people and JSON
DECODERS: dict[SerdeName, Callable[[bytes], Any]] = {
    form: getattr(Serdes, form.value).deserialize
    for form in SerdeName
    if form not in (SerdeName.windowed, SerdeName.registry)
}
DECODERS[SerdeName.bytes] = lambda data: base64.b64encode(data).decode()
DECODERS[SerdeName.uuid] = lambda data: str(Serdes.uuid.deserialize(data))
DECODERS[SerdeName.windowed] = _unwindowed
DECODERS[SerdeName.registry] = lambda data: _reader_as_written()(data)

#: plain data to bytes
ENCODERS: dict[SerdeName, Callable[[Any], bytes | None]] = {
    SerdeName.string: lambda value: Serdes.string.serialize(value if isinstance(value, str) else json.dumps(value)),
    SerdeName.json: Serdes.json.serialize,
    SerdeName.int32: lambda value: Serdes.int32.serialize(int(value)),
    SerdeName.int64: lambda value: Serdes.int64.serialize(int(value)),
    SerdeName.float32: lambda value: Serdes.float32.serialize(float(value)),
    SerdeName.float64: lambda value: Serdes.float64.serialize(float(value)),
    SerdeName.boolean: lambda value: Serdes.boolean.serialize(_truth(value)),
    SerdeName.uuid: lambda value: Serdes.uuid.serialize(UUID(value)),
    SerdeName.bytes: lambda value: base64.b64decode(value, validate=True),
}


def _truth(value: Any) -> bool:
    words = {True: True, False: False, "true": True, "false": False}
    if value not in words:
        raise ValueError(f"{value!r} is neither true nor false")
    return words[value]


def _as_registered(value: Any, where: str, topic: str, part: str) -> bytes:
    try:
        return _serde_as_registered(topic, part).serialize(value)
    except SerializationError as error:
        raise BadInput(f"{where}: {error}") from error


def decoded(data: bytes | None, form: SerdeName, where: str) -> Any:
    """Turn bytes into plain data; ``where`` names them if they are not of that form.

    >>> decoded(b"[1]", SerdeName.json, "value"), decoded(None, SerdeName.int64, "value")
    ([1], None)
    """
    if data is None:
        return None
    try:
        return DECODERS[form](data)
    except (BadOption, RegistryError):
        raise
    except Exception as error:
        raise BadInput(f"{where} is not {form.value} ({error}): give another form, or bytes") from error


def encoded(value: Any, form: SerdeName, where: str, subject: tuple[str, str] = ("", "value")) -> bytes | None:
    """Turn plain data into bytes. ``subject``: topic, and key or value, by which a schema registry finds the schema.

    >>> encoded("5", SerdeName.int32, "line 1")
    b'\\x00\\x00\\x00\\x05'
    """
    if value is None:
        return None
    if form is SerdeName.registry:
        return _as_registered(value, where, *subject)
    if form not in ENCODERS:
        raise BadOption(f"{form.value} can only be read, not written")
    try:
        return ENCODERS[form](value)
    except Exception as error:
        raise BadInput(f"{where}: {value!r} cannot be written as {form.value} ({error})") from error
