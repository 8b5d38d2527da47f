"""Sliding windows equal Kafka Streams': outputs, stores and changelogs."""

from typing import Any

import pytest
from compare import run_both
from sequences import LONG, append, check, empty, glue, kept, scripts

from penstock.operators.emit import EmitStrategy
from penstock.serde import Serdes
from penstock.state.spec import Stores
from penstock.windows import SlidingWindows

INPUTS = {"in": (Serdes.string, Serdes.string)}
TEXT = {"key": Serdes.string, "value": Serdes.string}
ON_CLOSE = EmitStrategy.on_window_close

WINDOWS = {
    "no grace": SlidingWindows(10),
    "grace": SlidingWindows(10, grace=6),
    "much grace": SlidingWindows(7, grace=50),
    "minutes": SlidingWindows(40_000, grace=30_000),
}


def windowed(builder: Any, windows: Any) -> Any:
    return builder.stream("in", **TEXT).group_by_key(**TEXT).windowed_by(windows)


def send(table: Any, windows: Any, value: Any = Serdes.string) -> None:
    table.to_stream().to("out", key=Serdes.windowed(Serdes.string, windows.difference), value=value)


def check_all(seed: str, topology: Any, windows: Any, *, compacted: bool, count: int = 25, **what: bool) -> None:
    difference, grace = windows.difference, windows.grace
    distances = (max(difference, 3), difference + 1, 2 * difference, grace, difference + grace, 2 * difference + grace)
    for script in scripts(seed, distances, count=count, starts=(0, difference, 3 * difference)):
        # how far the store has come is not known in every shard: a row may be seen a little longer (docs/differences.md)
        check(topology, script, inputs=INPUTS, compacted=compacted, stores=not compacted, **what)


@pytest.mark.capability("KG4", "TW1", "W2", "W6", "W7")
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_count(name: str, cached: bool) -> None:
    windows = WINDOWS[name]

    def topology(builder: Any) -> None:
        send(windowed(builder, windows).count(store=kept(windows, cached)), windows, Serdes.int64)

    check_all(f"count {name}", topology, windows, compacted=not cached)


@pytest.mark.capability("TW1", "W2")
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_aggregate(name: str, cached: bool) -> None:
    windows = WINDOWS[name]

    def topology(builder: Any) -> None:
        table = windowed(builder, windows).aggregate(empty, append, store=kept(windows, cached), value=Serdes.string)
        send(table, windows)

    check_all(f"aggregate {name}", topology, windows, compacted=not cached)


@pytest.mark.capability("TW1", "W2")
@pytest.mark.parametrize("cached", [True, False])
def test_reduce(cached: bool) -> None:
    windows = SlidingWindows(10, grace=15)
    spec = Stores.window("all", LONG if cached else 60, 10, cached=cached)

    def topology(builder: Any) -> None:
        send(windowed(builder, windows).reduce(glue, store=spec), windows)

    check_all(f"reduce {cached}", topology, windows, compacted=not cached)


@pytest.mark.capability("TW1", "W2")
@pytest.mark.parametrize("name", ["no grace", "grace", "much grace"])
def test_the_default_store(name: str) -> None:
    windows = WINDOWS[name]

    def topology(builder: Any) -> None:
        send(windowed(builder, windows).aggregate(empty, append, store="kept", value=Serdes.string), windows)

    check_all(f"default {name}", topology, windows, compacted=False)


@pytest.mark.capability("EM1", "W2")
@pytest.mark.parametrize("name", ["no grace", "grace", "much grace", "minutes"])
def test_on_window_close(name: str) -> None:
    windows = WINDOWS[name]

    def topology(builder: Any) -> None:
        closed = windowed(builder, windows).emit(ON_CLOSE)
        send(closed.aggregate(empty, append, store=kept(windows, True), value=Serdes.string), windows)

    check_all(f"close {name}", topology, windows, compacted=True, headers=False)


@pytest.mark.capability("EM1")
def test_on_window_close_keeps_the_windows_that_kafka_loses_in_a_jump() -> None:
    """A known difference: Kafka reads closed windows after the record has moved the store's time, and some have expired."""
    windows = SlidingWindows(10)

    def topology(builder: Any) -> None:
        send(windowed(builder, windows).emit(ON_CLOSE).count(store="counts"), windows, Serdes.int64)

    both = run_both(topology, [("in", "a", "x", 25), ("in", "b", "x", 1000)], inputs=INPUTS, in_memory=False)
    assert "out" not in both.kafka.output
    assert [row[2] for row in both.penstock.output["out"]] == [25]
