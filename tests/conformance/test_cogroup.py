"""Cogrouped aggregation, plain and windowed, equals Kafka Streams': outputs, stores and changelogs."""

from typing import Any

import pytest
from sequences import append, append_other, check, empty, kept, merge, scripts

from penstock.serde import Serdes
from penstock.windows import SessionWindows, SlidingWindows, TimeWindows

TOPICS = ("in", "other")
INPUTS = dict.fromkeys(TOPICS, (Serdes.string, Serdes.string))
TEXT = {"key": Serdes.string, "value": Serdes.string}


def cogrouped(builder: Any) -> Any:
    one = builder.stream("in", **TEXT).group_by_key(**TEXT)
    other = builder.stream("other", **TEXT).group_by_key(**TEXT)
    return one.cogroup(append).cogroup(other, append_other)


def check_all(
    seed: str,
    topology: Any,
    distances: tuple[int, ...] = (5, 10),
    *,
    count: int = 60,
    compacted: bool = False,
    **what: bool,
) -> None:
    for script in scripts(seed, distances, topics=TOPICS, count=count):
        check(topology, script, inputs=INPUTS, compacted=compacted, **what)


@pytest.mark.capability("KG5", "CG1", "CG2")
def test_aggregate() -> None:
    def topology(builder: Any) -> None:
        cogrouped(builder).aggregate(empty, store="all", value=Serdes.string).to_stream().to("out", **TEXT)

    check_all("plain", topology)


@pytest.mark.capability("KG5", "CG1", "CG2")
def test_inputs_that_change_their_key_are_repartitioned() -> None:
    def topology(builder: Any) -> None:
        one = builder.stream("in", **TEXT).group_by(lambda key, value: f"{key}{value}", **TEXT)
        other = builder.stream("other", **TEXT).group_by_key(**TEXT)
        table = one.cogroup(append).cogroup(other, append_other).aggregate(empty, store="all", value=Serdes.string)
        table.to_stream().to("out", **TEXT)

    check_all("re-keyed", topology, count=30)


@pytest.mark.capability("CG1")
def test_the_same_grouped_stream_again_replaces_its_aggregator() -> None:
    def topology(builder: Any) -> None:
        grouped = builder.stream("in", **TEXT).group_by_key(**TEXT)
        other = builder.stream("other", **TEXT).group_by_key(**TEXT)
        table = (
            grouped.cogroup(append)
            .cogroup(other, append)
            .cogroup(grouped, append_other)
            .aggregate(empty, store="all", value=Serdes.string)
        )
        table.to_stream().to("out", **TEXT)

    check_all("again", topology, count=20)


@pytest.mark.capability("CG3", "W1")
@pytest.mark.parametrize("windows", [TimeWindows(10, grace=5), TimeWindows(10, advance=4)], ids=str)
@pytest.mark.parametrize("cached", [True, False])
def test_time_windows(windows: TimeWindows, cached: bool) -> None:
    def topology(builder: Any) -> None:
        table = (
            cogrouped(builder).windowed_by(windows).aggregate(empty, store=kept(windows, cached), value=Serdes.string)
        )
        table.to_stream().to("out", key=Serdes.windowed(Serdes.string, windows.size), value=Serdes.string)

    check_all(
        f"time {windows}",
        topology,
        (windows.advance, windows.size, windows.size + windows.grace),
        count=30,
        compacted=not cached,
    )


@pytest.mark.capability("CG3", "W2")
@pytest.mark.parametrize("windows", [SlidingWindows(10, grace=5), SlidingWindows(6)], ids=str)
@pytest.mark.parametrize("cached", [True, False])
def test_sliding_windows(windows: SlidingWindows, cached: bool) -> None:
    def topology(builder: Any) -> None:
        table = (
            cogrouped(builder).windowed_by(windows).aggregate(empty, store=kept(windows, cached), value=Serdes.string)
        )
        table.to_stream().to("out", key=Serdes.windowed(Serdes.string, windows.difference), value=Serdes.string)

    difference, grace = windows.difference, windows.grace
    # without a cache, a row may be seen a little longer than in Kafka (docs/differences.md)
    distances = (difference, 2 * difference, difference + grace)
    check_all(f"sliding {windows}", topology, distances, count=30, compacted=not cached, stores=cached)


@pytest.mark.capability("CG3", "W3")
@pytest.mark.parametrize("windows", [SessionWindows(5, grace=5), SessionWindows(8)], ids=str)
@pytest.mark.parametrize("cached", [True, False])
def test_session_windows(windows: SessionWindows, cached: bool) -> None:
    def topology(builder: Any) -> None:
        table = (
            cogrouped(builder)
            .windowed_by(windows)
            .aggregate(empty, merge, store=kept(windows, cached), value=Serdes.string)
        )
        table.to_stream().to("out", key=Serdes.session_windowed(Serdes.string), value=Serdes.string)

    check_all(
        f"session {windows}",
        topology,
        (windows.gap, 2 * windows.gap, windows.gap + windows.grace),
        count=30,
        compacted=not cached,
    )
