"""The reference of the public interface: signatures and docstrings of what programs import, a page for each subject."""

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

#: page -> what it is about, module -> names; a test finds each public name on one page
PAGES: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "streams": (
        "Streams, tables and groups",
        {
            "penstock": (
                "StreamsBuilder", "KStream", "KTable", "GlobalKTable", "KGroupedStream", "KGroupedTable",
                "CogroupedKStream", "WindowedKStream", "Change",
            )
        },
    ),
    "windows": (
        "Windows, emission and time",
        {
            "penstock": (
                "TimeWindows", "SlidingWindows", "SessionWindows", "UnlimitedWindows", "JoinWindows", "Windows",
                "Windowed", "EmitStrategy", "Suppressed", "Buffer", "TimestampExtractor", "WatermarkStrategy", "LatePolicy",
            )
        },
    ),
    "processors": (
        "Processors and topologies",
        {
            "penstock": (
                "Topology", "Processor", "FixedKeyProcessor", "ValueTransformer", "ProcessorContext",
                "FixedKeyProcessorContext", "EmitterContext", "PunctuationType", "Cancellable", "Record",
                "FixedKeyRecord", "RecordMetadata", "Headers",
            )
        },
    ),
    "stores": ("Stores and serdes", {"penstock": ("Stores", "ValueAndTimestamp", "VersionedRecord", "Serdes", "Serde", "SchemaRegistry")}),
    "app": ("The application", {"penstock": ("App", "State", "Hook", "RestoreProgress")}),
    "queries": (
        "Queries",
        {
            "penstock": (
                "KeyQuery", "RangeQuery", "PrefixQuery", "TimestampedKeyQuery", "TimestampedRangeQuery", "WindowKeyQuery",
                "WindowRangeQuery", "SessionQuery", "VersionedKeyQuery", "MultiVersionedKeyQuery", "QueryResult",
                "Snapshot", "KeyMetadata",
            ),
            "penstock.sql": ("frame",),
        },
    ),
    "testing": (
        "Testing",
        {
            "penstock.testing": (
                "TopologyTestDriver", "InputTopic", "OutputTopic", "MockClock", "kafka_broker", "schema_registry", "spark_session",
            )
        },
    ),
    "errors": (
        "Errors",
        {
            "penstock": (
                "PenstockError", "StreamsError", "ConfigError", "TopologyError", "TopologyChanged", "TopicError",
                "BrokerError", "EngineError", "FencedError", "RecoveryError", "DeserializationError", "ProcessingError",
                "ProductionError", "SerializationError", "TimestampError", "RegistryError", "StateError", "StoreError", "UnknownStore",
                "QueryError", "WrongQuery", "BadKey", "NotAvailable", "NotUpToBound", "SnapshotClosed",
            )
        },
    ),
}  # fmt: skip


def pages() -> dict[str, str]:
    """Return the pages, by path."""
    found = {f"reference/api/{name}.md": page(title, names) for name, (title, names) in PAGES.items()}
    return {**found, "reference/index.md": index()}


def index() -> str:
    """Return the first page of the reference: every name, with a link."""
    lines = [
        "# Reference",
        "",
        "Generated from signatures, docstrings and tables of the code, and checked by the tests.",
        "",
    ]
    for name, (title, modules) in PAGES.items():
        links = [f"[`{n}`](api/{name}.md#{n.lower()})" for names in modules.values() for n in names]
        lines += [f"**[{title}](api/{name}.md)**: {', '.join(links)}", ""]
    lines += [
        "**Tables**: [settings](../configuration.md), [metrics](../metrics.md), [commands](commands.md),",
        "[endpoints over HTTP](endpoints.md), [capabilities of Kafka Streams](../parity.md)",
        "",
    ]
    return "\n".join(lines)


def page(title: str, modules: dict[str, tuple[str, ...]]) -> str:
    """Return one page."""
    parts = [f"# {title}", ""]
    for module, names in modules.items():
        for name in names:
            parts += entry(module, name, getattr(importlib.import_module(module), name))
    return "\n".join(parts)


def entry(module: str, name: str, thing: Any) -> list[str]:
    """Return what the reference says of a name: a class with its public methods, a function, or a value."""
    lines = [f"## {name}", "", f"`from {module} import {name}`", ""]
    if not inspect.isclass(thing):
        return [*lines, *signature(name, thing), *described(thing), ""]
    lines += [*signature(name, thing), *described(thing), ""]
    for method, member in members(thing):
        lines += [
            f"### {method} {{ #{name.lower()}-{method} }}",
            "",
            *signature(method, member),
            *described(member),
            "",
        ]
    return lines


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield the public members of a class that say something about themselves, inherited ones of ours included."""
    seen = set()
    for owner in thing.__mro__:
        if not owner.__module__.startswith("penstock"):
            continue
        for name, member in vars(owner).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            plain = member.__func__ if isinstance(member, staticmethod | classmethod) else member
            if callable(plain) and not inspect.isclass(plain) and inspect.getdoc(plain):
                yield name, plain
            elif isinstance(member, property) and member.__doc__:
                yield name, member


def signature(name: str, thing: Any) -> list[str]:
    """Return how it is called, as code; nothing for what cannot be called, or says it nowhere."""
    if isinstance(thing, property) or not callable(thing):
        return []
    try:
        found = inspect.signature(inspect.unwrap(thing) if not inspect.isclass(thing) else thing)
    except (ValueError, TypeError):
        return []
    if inspect.isclass(thing):
        found = found.replace(return_annotation=inspect.Signature.empty)
    given = [p for p in found.parameters.values() if p.name not in ("self", "cls")]
    text = f"{name}{found.replace(parameters=given)}"
    text = re.sub(r"\b(?:\w+\.)+(?=\w)|<object object at \w+>", "", re.sub(r"'([\w\[\], .|]+)'", r"\1", text))
    if len(text) > 100:
        inside = ",\n".join(f"    {given.strip()}" for given in parameters(text, name))
        text = f"{name}(\n{inside},\n){text[closing(text, name) + 1 :]}"
    return ["```python", text, "```", ""]


def closing(text: str, name: str) -> int:
    """Return where the parenthesis behind the name is closed."""
    depth = 0
    for at in range(len(name), len(text)):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text) - 1


def parameters(text: str, name: str) -> Iterator[str]:
    """Yield the parameters of a signature in text."""
    depth, begin, end = 0, len(name) + 1, closing(text, name)
    for at in range(begin, end):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[at], 0)
        if depth == 0 and text[at] == ",":
            yield text[begin:at]
            begin = at + 1
    yield text[begin:end]


def described(thing: Any) -> list[str]:
    """Return a docstring as Markdown: examples are fenced."""
    text = inspect.getdoc(thing)
    if not text or (inspect.isclass(thing) and "__doc__" not in vars(thing)):
        return []
    return list(fenced(text.splitlines()))


def fenced(lines: list[str]) -> Iterator[str]:
    """Yield lines, with a fence around each run of examples."""
    inside = False
    for at, line in enumerate(lines):
        if line.lstrip().startswith(">>>") and not inside:
            inside = True
            yield from ("", "```pycon")
        elif inside and not line.strip():
            following = next((later for later in lines[at:] if later.strip()), "")
            if not following.lstrip().startswith(">>>"):
                inside = False
                yield "```"
        yield line
    if inside:
        yield "```"
