"""An application with the kinds of stores that `tests.app.test_restore` has not, and what its records are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock import Processor, Serdes, Stores, StreamsBuilder, Topology

START = 1_600_000_020_000
TEXT: dict[str, Any] = {"key": Serdes.string, "value": Serdes.string}
STORES = ("brief", "all", "windows-in-memory", "prices", "rates")


class Keeps(Processor[str, str]):
    """Writes each record to every store that it has."""

    def process(self, record: Any) -> None:
        """Write it; an empty value deletes."""
        value = record.value or None
        self.context.store("brief").put(record.key, value)
        self.context.store("unlogged").put(record.key, value)
        self.context.store("windows-in-memory").put(record.key, value, record.timestamp // 1000 * 1000)


class Gathers(Processor[str, str]):
    """Writes each record to the shared store."""

    def process(self, record: Any) -> None:
        """Write it."""
        self.context.store("all").put(record.key, record.value or None)


class Follows(Processor[str, str]):
    """Updates a global store by itself."""

    def process(self, record: Any) -> None:
        """Write it in capitals."""
        self.context.store("made").put(record.key, record.value.upper())


def more_kinds(name: Callable[[str], str]) -> Topology:
    """Build it: a time to live, a shared store, windows-in-memory, a table whose topic is its changelog, a global table."""
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("brief", ttl=5000, **TEXT))
    builder.add_state_store(Stores.key_value("unlogged", logged=False, **TEXT))
    builder.add_state_store(Stores.window("windows-in-memory", 4000, 1000, persistent=False, **TEXT))
    builder.add_state_store(Stores.shared("all", **TEXT))
    lines = builder.stream(name("lines"), **TEXT)
    lines.process(Keeps, stores=["brief", "unlogged", "windows-in-memory"])
    builder.stream(name("others"), **TEXT).process(Gathers, stores=["all"])
    prices = builder.table(name("prices"), key=Serdes.string, value=Serdes.json, store="prices")
    prices.to_stream().foreach(print)
    rates = builder.global_table(name("rates"), key=Serdes.string, value=Serdes.int64, store="rates")
    lines.join(rates, lambda line, rate: rate, select=lambda key, line: line).foreach(print)
    builder.add_global_store(Stores.key_value("made", **TEXT), name("names"), Follows, **TEXT)
    return builder.build(optimize="all")
