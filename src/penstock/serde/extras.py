"""Packages that only some serdes need: imported when such a serde is made, and named where they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from penstock.errors import MissingExtra

DISTRIBUTION = "penstock-streams"
#: the package that an extra brings, as pip knows it
PACKAGES = {
    "avro": "fastavro",
    "protobuf": "protobuf",
    "json-schema": "jsonschema-rs",
    "registry": "confluent-kafka[schemaregistry]",
}


def need(module: str, *, extra: str, asked: str) -> Any:
    """Import a module that an extra brings.

    >>> need("no_such_format", extra="avro", asked="Serdes.avro")
    Traceback (most recent call last):
    penstock.errors.MissingExtra: Serdes.avro needs the package fastavro: pip install 'penstock-streams[avro]' ...
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{asked} needs the package {PACKAGES[extra]}: pip install '{DISTRIBUTION}[{extra}]' "
            "(on the driver and on every worker)"
        ) from error
