"""Session windows equal Kafka Streams': outputs, stores and changelogs."""

from typing import Any

import pytest
from compare import run_both
from sequences import append, check, empty, glue, kept, merge, scripts

from penstock.operators.emit import EmitStrategy
from penstock.serde import Serdes
from penstock.state.spec import Stores
from penstock.windows import SessionWindows

INPUTS = {"in": (Serdes.string, Serdes.string)}
TEXT = {"key": Serdes.string, "value": Serdes.string}
ON_CLOSE = EmitStrategy.on_window_close

WINDOWS = {
    "no grace": SessionWindows(5),
    "grace": SessionWindows(5, grace=8),
    "much grace": SessionWindows(3, grace=60),
    "minutes": SessionWindows(30_000, grace=20_000),
}


def windowed(builder: Any, windows: Any) -> Any:
    return builder.stream("in", **TEXT).group_by_key(**TEXT).windowed_by(windows)


def send(table: Any, value: Any = Serdes.string) -> None:
    table.to_stream().to("out", key=Serdes.session_windowed(Serdes.string), value=value)


def check_all(
    seed: str,
    topology: Any,
    windows: Any,
    *,
    compacted: bool,
    stores: bool = True,
    count: int = 16,
    extra: tuple[int, ...] = (),
    **what: bool,
) -> None:
    gap, grace = windows.gap, windows.grace
    distances = (gap, gap + 1, 2 * gap, grace, gap + grace, *extra)
    for script in scripts(seed, distances, count=count):
        check(topology, script, inputs=INPUTS, stores=stores, compacted=compacted, **what)


@pytest.mark.capability("KG4", "SW1", "W3", "W6", "W7")
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_count(name: str, cached: bool) -> None:
    windows = WINDOWS[name]

    def topology(builder: Any) -> None:
        send(windowed(builder, windows).count(store=kept(windows, cached)), Serdes.int64)

    check_all(f"count {name}", topology, windows, compacted=not cached)


@pytest.mark.capability("SW1", "W3")
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_aggregate(name: str, cached: bool) -> None:
    windows = WINDOWS[name]

    def topology(builder: Any) -> None:
        store = kept(windows, cached)
        send(windowed(builder, windows).aggregate(empty, append, merge, store=store, value=Serdes.string))

    check_all(f"aggregate {name}", topology, windows, compacted=not cached)


@pytest.mark.capability("SW1", "W3")
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("persistent", [True, False])
def test_reduce(cached: bool, persistent: bool) -> None:
    windows = SessionWindows(5, grace=5)
    spec = Stores.session("all", 30, cached=cached, persistent=persistent)

    def topology(builder: Any) -> None:
        send(windowed(builder, windows).reduce(glue, store=spec))

    check_all(f"reduce {cached} {persistent}", topology, windows, compacted=not cached, stores=not cached, extra=(30,))


@pytest.mark.capability("SW1")
@pytest.mark.parametrize("cached", [True, False])
def test_old_values_reach_a_table_downstream(cached: bool) -> None:
    windows = SessionWindows(5, grace=20)
    spec = kept(windows, cached)

    def topology(builder: Any) -> None:
        table = windowed(builder, windows).aggregate(empty, append, merge, store=spec, value=Serdes.string)
        grouped = table.group_by(lambda session, text: (session.key, text), **TEXT)
        totals = grouped.aggregate(
            empty, lambda k, v, a: f"{a}+{v}", lambda k, v, a: f"{a}-{v}", store="totals", value=Serdes.string
        )
        totals.to_stream().to("out", **TEXT)

    check_all(f"old values {cached}", topology, windows, compacted=not cached)


@pytest.mark.capability("SW1", "W3")
@pytest.mark.parametrize("name", ["no grace", "grace", "much grace"])
def test_the_default_store(name: str) -> None:
    """A known difference: past the retention of its store Kafka's cache forgets the tombstone of a merged session.

    `test_default_stores` compares this at the scale of segments, and exactly.
    """
    windows = WINDOWS[name]

    def topology(builder: Any) -> None:
        send(windowed(builder, windows).aggregate(empty, append, merge, store="kept", value=Serdes.string))

    for script in scripts(f"default {name}", (windows.gap, windows.gap + 1, windows.retention), count=16):
        both = run_both(topology, script, inputs=INPUTS, in_memory=False)
        assert both.kafka.stores == both.penstock.stores, script
        kafka, penstock = both.kafka.output.get("out", []), both.penstock.output.get("out", [])
        assert [row for row in kafka if row[1] is not None] == [row for row in penstock if row[1] is not None], script
        assert [row for row in penstock if row in kafka] == kafka, script


@pytest.mark.capability("EM1", "W3")
@pytest.mark.parametrize("name", WINDOWS)
def test_on_window_close(name: str) -> None:
    windows = WINDOWS[name]

    def topology(builder: Any) -> None:
        closed = windowed(builder, windows).emit(ON_CLOSE)
        send(closed.aggregate(empty, append, merge, store=kept(windows, True), value=Serdes.string))

    check_all(f"close {name}", topology, windows, compacted=True, headers=False)
