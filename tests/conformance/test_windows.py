"""Tumbling, hopping and unlimited windows equal Kafka Streams': outputs, stores and changelogs."""

from typing import Any

import pytest
from sequences import append, check, empty, glue, kept, scripts

from penstock.operators.emit import EmitStrategy
from penstock.serde import Serdes
from penstock.state.spec import Stores
from penstock.windows import TimeWindows, UnlimitedWindows

INPUTS = {"in": (Serdes.string, Serdes.string)}
TEXT = {"key": Serdes.string, "value": Serdes.string}
ON_CLOSE = EmitStrategy.on_window_close


def windowed(builder: Any, windows: Any) -> Any:
    return builder.stream("in", **TEXT).group_by_key(**TEXT).windowed_by(windows)


def send(table: Any, windows: Any, value: Any = Serdes.string) -> None:
    table.to_stream().to("out", key=Serdes.windowed(Serdes.string, windows.size), value=value)


def distances(windows: Any) -> tuple[int, ...]:
    if isinstance(windows, UnlimitedWindows):
        return (windows.start, 5)
    return (windows.advance, windows.size, windows.grace, windows.size + windows.grace)


def check_all(
    seed: str,
    topology: Any,
    windows: Any,
    *,
    compacted: bool,
    stores: bool = True,
    extra: tuple[int, ...] = (),
    count: int = 14,
    headers: bool = True,
) -> None:
    for script in scripts(seed, (*distances(windows), *extra), count=count):
        check(topology, script, inputs=INPUTS, stores=stores, compacted=compacted, headers=headers)


WINDOWS = {
    "tumbling": TimeWindows(10),
    "tumbling with grace": TimeWindows(10, grace=7),
    "hopping": TimeWindows(10, advance=3),
    "hopping with grace": TimeWindows(10, advance=5, grace=4),
    "unlimited": UnlimitedWindows(start=7),
    "minutes": TimeWindows(60_000, advance=20_000, grace=30_000),
}


@pytest.mark.capability("KG4", "TW1", "W1", "W4", "W6", "W7")
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_count(name: str, cached: bool) -> None:
    windows = WINDOWS[name]

    def topology(builder: Any) -> None:
        send(windowed(builder, windows).count(store=kept(windows, cached)), windows, Serdes.int64)

    check_all(f"count {name}", topology, windows, compacted=not cached)


@pytest.mark.capability("KG4", "TW1", "W1", "W4")
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_aggregate(name: str, cached: bool) -> None:
    windows = WINDOWS[name]

    def topology(builder: Any) -> None:
        table = windowed(builder, windows).aggregate(empty, append, store=kept(windows, cached), value=Serdes.string)
        send(table, windows)

    check_all(f"aggregate {name}", topology, windows, compacted=not cached)


@pytest.mark.capability("TW1", "W1")
@pytest.mark.parametrize("name", ["tumbling with grace", "hopping"])
def test_reduce(name: str) -> None:
    windows = WINDOWS[name]

    def topology(builder: Any) -> None:
        send(windowed(builder, windows).reduce(glue, store=kept(windows, False)), windows)

    check_all(f"reduce {name}", topology, windows, compacted=True)


@pytest.mark.capability("TW1")
@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("cached", [True, False])
def test_stores_with_a_longer_retention(persistent: bool, cached: bool) -> None:
    windows = TimeWindows(10, grace=3)
    spec = Stores.window("kept", 40, 10, persistent=persistent, cached=cached)

    def topology(builder: Any) -> None:
        send(windowed(builder, windows).aggregate(empty, append, store=spec, value=Serdes.string), windows)

    check_all(f"retention {persistent}", topology, windows, compacted=not cached, stores=not cached, extra=(40,))


@pytest.mark.capability("TW1")
@pytest.mark.parametrize("cached", [True, False])
def test_old_values_reach_a_table_downstream(cached: bool) -> None:
    windows = TimeWindows(10, advance=5, grace=10)
    spec = kept(windows, cached)

    def topology(builder: Any) -> None:
        table = windowed(builder, windows).aggregate(empty, append, store=spec, value=Serdes.string)
        grouped = table.group_by(lambda window, text: (window.key, text), **TEXT)
        totals = grouped.aggregate(
            empty, lambda k, v, a: f"{a}+{v}", lambda k, v, a: f"{a}-{v}", store="totals", value=Serdes.string
        )
        totals.to_stream().to("out", **TEXT)

    check_all(f"old values {cached}", topology, windows, compacted=not cached)


@pytest.mark.capability("TW1")
def test_without_a_store_name_the_names_are_kafkas() -> None:
    windows = TimeWindows(10)

    def topology(builder: Any) -> None:
        stream = builder.stream("in", **TEXT).select_key(lambda key, value: value)
        counts = stream.group_by_key(**TEXT).windowed_by(windows).count(key=Serdes.string, value=Serdes.int64)
        send(counts, windows, Serdes.int64)

    check_all("unnamed", topology, windows, compacted=False, stores=False, count=10)


@pytest.mark.capability("TW1", "W1")
@pytest.mark.parametrize("name", ["tumbling", "tumbling with grace", "hopping"])
def test_the_default_store(name: str) -> None:
    windows = WINDOWS[name]

    def topology(builder: Any) -> None:
        send(windowed(builder, windows).aggregate(empty, append, store="kept", value=Serdes.string), windows)

    check_all(f"default {name}", topology, windows, compacted=False)


@pytest.mark.capability("EM1", "W1")
@pytest.mark.parametrize("name", ["tumbling", "tumbling with grace", "hopping", "hopping with grace", "minutes"])
def test_on_window_close(name: str) -> None:
    windows = WINDOWS[name]

    def topology(builder: Any) -> None:
        closed = windowed(builder, windows).emit(ON_CLOSE)
        send(closed.aggregate(empty, append, store=kept(windows, True), value=Serdes.string), windows)

    check_all(f"close {name}", topology, windows, compacted=False, count=30, headers=False)


@pytest.mark.capability("EM1")
def test_unlimited_windows_refuse_on_window_close() -> None:
    windows = UnlimitedWindows()

    def topology(builder: Any) -> None:
        send(windowed(builder, windows).emit(ON_CLOSE).count(), windows, Serdes.int64)

    check(topology, [], inputs=INPUTS)
