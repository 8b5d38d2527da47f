"""Suppress equals Kafka Streams': what leaves, when, as which record; the changelog's bytes; failures of strict buffers."""

from typing import Any

import pytest
from sequences import append, check, empty, kept, merge, scripts

from penstock import Buffer, Suppressed
from penstock.serde import Serdes
from penstock.windows import SessionWindows, SlidingWindows, TimeWindows

INPUTS = {"in": (Serdes.string, Serdes.string)}
TEXT = {"key": Serdes.string, "value": Serdes.string}


def check_all(
    seed: str,
    topology: Any,
    distances: tuple[int, ...],
    *,
    count: int = 30,
    compacted: bool = False,
    stores: bool = True,
    **how: Any,
) -> None:
    for script in scripts(seed, distances, count=count, silent=(None, "z"), **how):
        check(topology, script, inputs=INPUTS, compacted=compacted, stores=stores)


def windowed(builder: Any, windows: Any) -> Any:
    return builder.stream("in", **TEXT).group_by_key(**TEXT).windowed_by(windows)


FINAL = {
    "tumbling": TimeWindows(10),
    "tumbling with grace": TimeWindows(10, grace=5),
    "hopping": TimeWindows(10, advance=4, grace=3),
    "sliding": SlidingWindows(10, grace=4),
}


@pytest.mark.capability("KT5", "SU1", "SU3")
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("name", FINAL)
def test_until_the_window_closes(name: str, cached: bool) -> None:
    windows: Any = FINAL[name]
    size = windows.difference if isinstance(windows, SlidingWindows) else windows.size

    def topology(builder: Any) -> None:
        table = windowed(builder, windows).aggregate(empty, append, store=kept(windows, cached), value=Serdes.string)
        final = table.suppress(Suppressed.until_window_closes(Buffer.unbounded()))
        final.to_stream().to("out", key=Serdes.windowed(Serdes.string, size), value=Serdes.string)

    edges = (size, windows.grace, size + windows.grace)
    check_all(f"final {name} {cached}", topology, edges, compacted=not cached, stores=name != "sliding")


@pytest.mark.capability("SU1", "W3")
def test_until_the_session_closes() -> None:
    windows = SessionWindows(5, grace=4)

    def topology(builder: Any) -> None:
        table = windowed(builder, windows).aggregate(
            empty, append, merge, store=kept(windows, True), value=Serdes.string
        )
        final = table.suppress(Suppressed.until_window_closes(Buffer.unbounded()))
        final.to_stream().to("out", key=Serdes.session_windowed(Serdes.string), value=Serdes.string)

    check_all("final session", topology, (5, 4, 9, 10))


@pytest.mark.capability("KT5", "SU1", "SU3")
def test_a_strict_buffer_fails_at_the_same_record() -> None:
    windows = TimeWindows(10, grace=20)

    def topology(builder: Any) -> None:
        final = (
            windowed(builder, windows)
            .count(store=kept(windows, True))
            .suppress(Suppressed.until_window_closes(Buffer.max_records(3).shut_down_when_full()))
        )
        final.to_stream().to("out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.int64)

    check_all("strict", topology, (10, 20, 30), keys="abc", count=20)


BUFFERS = {
    "unbounded": Buffer.unbounded(),
    "two records": Buffer.max_records(2),
    "some bytes": Buffer.max_bytes(120),
    "two limits": Buffer.max_records(3, max_bytes=150),
    "strict": Buffer.max_bytes(200).shut_down_when_full(),
}


@pytest.mark.capability("KT5", "SU2", "SU3")
@pytest.mark.parametrize("name", BUFFERS)
def test_until_a_time_limit(name: str) -> None:
    def topology(builder: Any) -> None:
        table = builder.table("in", **TEXT, store="rows")
        table.suppress(Suppressed.until_time_limit(10, BUFFERS[name])).to_stream().to("out", **TEXT)

    check_all(f"limit {name}", topology, (10, 4), keys="abcd")


@pytest.mark.capability("SU2")
def test_old_values_behind_suppress() -> None:
    def topology(builder: Any) -> None:
        rows = builder.table("in", **TEXT, store="rows").suppress(Suppressed.until_time_limit(8, Buffer.max_records(2)))
        grouped = rows.group_by(lambda key, value: (value, key), **TEXT)
        table = grouped.aggregate(
            empty, lambda k, v, a: f"{a}+{v}", lambda k, v, a: f"{a}-{v}", store="groups", value=Serdes.string
        )
        table.to_stream().to("out", **TEXT)

    check_all("old values", topology, (8, 4), keys="abc")


@pytest.mark.capability("SU2")
def test_a_join_reads_the_value_before_what_waits() -> None:
    def topology(builder: Any) -> None:
        rows = builder.table("in", **TEXT, store="rows")
        held = rows.suppress(Suppressed.until_time_limit(8, Buffer.unbounded()))
        joined = held.join(rows, lambda one, other: f"{one}/{other}")
        joined.to_stream().to("out", **TEXT)

    check_all("join", topology, (8, 4), keys="ab")


@pytest.mark.capability("SU4")
def test_a_name_names_node_store_and_changelog() -> None:
    def topology(builder: Any) -> None:
        held = builder.table("in", **TEXT, store="rows").suppress(
            Suppressed.until_time_limit(8, Buffer.unbounded()), name="buffer"
        )
        held.to_stream().to("out", **TEXT)

    check_all("named", topology, (8, 4), count=10)
