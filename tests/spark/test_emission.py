"""When results leave: at every update, once per barrier, when a window closes, when a limit is reached; alike in engine and driver.

One application with every kind of emission runs with its caches on and off, the test driver with the same cuts beside it. Then what
a barrier shows is looked at: the records of one epoch are one consistent cut, and a cached table tells each key once.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.spark.families import TEXT, append, kv, merge
from tests.spark.runs import Case, Layout, Seen
from tests.spark.same import assert_same
from tests.spark.scripts import build, inputs, outputs, renamed, script

from penstock import (
    Buffer,
    EmitStrategy,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    Suppressed,
    TimeWindows,
)

WINDOWED = {"key": Serdes.windowed(Serdes.string, 20), "value": Serdes.string}
SESSIONS = {"key": Serdes.session_windowed(Serdes.string), "value": Serdes.string}
#: windows and their stores: (windows, how a store is made, how its keys are written)
KINDS = {
    "tumbling": (TimeWindows(20, grace=10), lambda name, **how: Stores.window(name, 100, 20, **TEXT, **how), WINDOWED),
    "hopping": (
        TimeWindows(20, advance=10, grace=10),
        lambda name, **how: Stores.window(name, 100, 20, **TEXT, **how),
        WINDOWED,
    ),
    "sliding": (
        SlidingWindows(20, grace=10),
        lambda name, **how: Stores.window(name, 100, 20, **TEXT, **how),
        WINDOWED,
    ),
    "sessions": (SessionWindows(15, grace=10), lambda name, **how: Stores.session(name, 100, **TEXT, **how), SESSIONS),
}


def every_emission(cached):
    """Return a function of a builder: each kind of window with each strategy, and what suppress makes of it."""

    def describe(builder):
        grouped = builder.stream("in", **TEXT).filter(lambda key, value: value is not None).group_by_key()
        for kind, (windows, store, written) in KINDS.items():
            for strategy in EmitStrategy:
                windowed = grouped.windowed_by(windows).emit(strategy)
                merger = (merge,) if kind == "sessions" else ()
                name = f"{kind}-{strategy.name[10:]}"
                found = windowed.aggregate(str, append, *merger, store=store(name, cached=cached))
                found.to_stream().to(name, **written)
                if strategy is EmitStrategy.on_window_update:
                    final = found.suppress(Suppressed.until_window_closes(Buffer.unbounded()), name=f"{kind}-final")
                    final.to_stream().to(f"{kind}-final", **written)
        totals = grouped.aggregate(str, append, store=kv("totals", cached=cached))
        totals.to_stream().to("totals", **TEXT)
        early = Suppressed.until_time_limit(40, Buffer.max_records(3).emit_early_when_full())
        totals.suppress(early, name="early").to_stream().to("early", **TEXT)
        small = Suppressed.until_time_limit(25, Buffer.max_bytes(400).emit_early_when_full())
        totals.suppress(small, name="small").to_stream().to("small", **TEXT)
        patient = totals.suppress(Suppressed.until_time_limit(60, Buffer.unbounded()), name="patient")
        patient.to_stream().to("patient", **TEXT)

    return describe


def run(bench, name, describe, layout, config, steps_of) -> Seen:
    application = bench.fresh(name)
    prefix = f"{application}."
    topology = renamed(build(describe), prefix)
    reads = inputs(topology, prefix)
    case = Case(bench, topology, application, reads, outputs(topology), layout, config)
    try:
        case.run(steps_of(reads))
        found = case.seen()
        assert_same(found, case.driver.seen())
    finally:
        case.close()
    found.sinks = {topic[len(prefix) :]: rows for topic, rows in found.sinks.items()}
    return found


@pytest.mark.parametrize(
    ("cached", "layout"),
    [
        (True, Layout(lanes=2, shards=4, partitions=2, chunks=5)),
        (False, Layout(lanes=2, shards=4, partitions=3, chunks=1, epoch=40)),
        (False, Layout(lanes=1, shards=1, partitions=1, chunks=3)),
    ],
    ids=lambda value: str(value) if isinstance(value, Layout) else f"{'' if value else 'un'}cached",
)
def test_every_kind_of_emission_commits_what_the_test_driver_gives(bench, cached, layout):
    found = run(
        bench,
        "emission",
        every_emission(cached),
        layout,
        {},
        lambda reads: script("emission", reads, layout.partitions, nulls=False),
    )
    assert found.sinks.keys() == {
        *(f"{kind}-{word}" for kind in KINDS for word in ("update", "close", "final")),
        "totals",
        "early",
        "small",
        "patient",
    }
    for kind in KINDS:
        on_close, final = closed(found, f"{kind}-close"), closed(found, f"{kind}-final")
        assert (
            kind in ("sliding", "sessions") or on_close == final
        )  # a late record may change windows that were given out


def closed(found: Seen, topic: str) -> dict:
    """What each window gave when it closed; it does so once."""
    assert all(len(rows) == 1 for rows in found.sinks[topic].values())
    return {key: rows[0][1].value for key, rows in found.sinks[topic].items()}


def one_cut(builder):
    """The same records counted by key and all together."""
    stream = builder.stream("in", **TEXT)
    counts = stream.group_by_key().count(store=kv("counts", Serdes.int64))
    counts.to_stream().to("counts", key=Serdes.string, value=Serdes.int64)
    total = stream.group_by(lambda key, value: "all", **TEXT).count(store=kv("total", Serdes.int64))
    total.to_stream().to("total", key=Serdes.string, value=Serdes.int64)


def test_the_records_of_an_epoch_are_a_consistent_cut_and_tell_each_key_of_a_cached_table_once(bench):
    layout = Layout(lanes=2, shards=4, partitions=2, chunks=6)
    found = run(
        bench,
        "cut",
        one_cut,
        layout,
        {"epoch_header": "epoch"},
        lambda reads: script("cut", reads, layout.partitions, nulls=False),
    )
    counts, totals = by_epoch(found, "counts"), by_epoch(found, "total")
    assert counts.keys() == totals.keys() == set(range(1, found.epochs + 1))
    table: Counter[bytes] = Counter()
    for epoch, rows in sorted(counts.items()):
        assert len({key for key, _ in rows}) == len(rows)
        table.update({key: value - table[key] for key, value in rows})
        assert totals[epoch] == [(b"all", table.total())]


def by_epoch(found: Seen, topic: str) -> dict[int, list[tuple[bytes, int]]]:
    rows: dict[int, list[tuple[bytes, int]]] = {}
    for key, written in found.sinks[topic].items():
        for _, (_, value, _, headers) in written:
            rows.setdefault(int(dict(headers)["epoch"]), []).append((key, int.from_bytes(value)))
    return rows
