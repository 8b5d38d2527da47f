"""The jars of Apicurio's serializers in Java, which write as Confluent's do if told so; Confluent's own are in no public repository.

They are those of 2.6.5: the POMs of later ones name parts that are not published. What they need besides is in the archive of the
registry, but for the validator of JSON Schema.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from penstock.dev.archive import unpacked
from penstock.dev.cache import cache_root, made_once
from penstock.dev.jars import run_ivy
from penstock.dev.registry import ARCHIVE

VERSION = "2.6.5.Final"
NAMES = (
    "serdes-avro-serde serdes-protobuf-serde serdes-jsonschema-serde client common serde-common schema-resolver "
    "schema-util-common schema-util-protobuf protobuf-schema-utilities"
)
JARS = [
    *(("io.apicurio", f"apicurio-registry-{name}", VERSION) for name in NAMES.split()),
    ("io.apicurio", "apicurio-common-rest-client-jdk", "0.1.18.Final"),
    ("com.networknt", "json-schema-validator", "1.5.3"),
    ("com.ethlo.time", "itu", "1.10.3"),
]
SETTINGS = (
    '<ivysettings><settings defaultResolver="public"/>'
    '<resolvers><ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers></ivysettings>'
)


def serializer_jars() -> list[str]:
    """Return the jars of the serializers and of what they need; raise ``JarsNotFound`` where they cannot be had."""
    library = unpacked(ARCHIVE) / "lib"
    version = hashlib.sha256(repr(JARS).encode()).hexdigest()[:16]
    own = made_once(cache_root() / "jars" / f"serializers-{version}", _fetch)
    return [str(jar) for folder in (own, library) for jar in sorted(folder.glob("*.jar"))]


def _fetch(folder: Path) -> None:
    """Bring them, each without what its POM names."""
    dependencies = "".join(
        f'<dependency org="{org}" name="{name}" rev="{version}" conf="default->*" transitive="false"/>'
        for org, name, version in JARS
    )
    settings = folder.parent / "settings.xml"
    settings.write_text(SETTINGS)
    (folder.parent / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="penstock" module="golden"/><configurations><conf name="default"/>'
        f"</configurations><dependencies>{dependencies}</dependencies></ivy-module>"
    )
    run_ivy(folder, lambda line: None, str(settings))
