"""Lanes change nothing, nor does the way that an epoch takes; cuts change no table (promises 4 and 6), through Spark and a real broker.

One application with an operator of each family runs several times on the same records.
"""

from __future__ import annotations

from dataclasses import replace

from tests.spark.families import TEXT, append, both, kv, merge
from tests.spark.runs import Case, Layout, Seen
from tests.spark.scripts import LATER, build, inputs, outputs, renamed, script

from penstock import JoinWindows, Serdes, SessionWindows, Stores, TimeWindows, ValueAndTimestamp

EVERY, EVERY_OTHER, NONE = (0, 1), (1,), ()
WINDOWED = {"key": Serdes.windowed(Serdes.string, 20), "value": Serdes.string}


def one_of_each(builder):
    """An aggregate, a re-keyed one, windows, sessions, a table join, a foreign-key join, a stream join, a stream-table join."""
    a, b = builder.stream("a", **TEXT), builder.stream("b", **TEXT)
    rows = builder.table("rows", store=kv("rows"), **TEXT)
    others = builder.table("others", store=kv("others"), **TEXT)
    a.group_by_key().aggregate(str, append, store=kv("sums", cached=False)).to_stream().to("sums", **TEXT)
    by_value = a.group_by(lambda key, value: value, **TEXT)
    by_value.aggregate(str, append, store=kv("values", cached=False)).to_stream().to("values", **TEXT)
    windows = Stores.window("windows", 10**6, 20, cached=False, **TEXT)
    windowed = b.group_by_key().windowed_by(TimeWindows(20, grace=40))
    windowed.aggregate(str, append, store=windows).to_stream().to("windows", **WINDOWED)
    sessions = b.group_by_key().windowed_by(SessionWindows(15, grace=40))
    sessions.aggregate(str, append, merge, store=Stores.session("sessions", 10**6, **TEXT))
    rows.outer_join(others, both, store=kv("joined")).to_stream().to("joined", **TEXT)
    rows.left_join(others, both, foreign_key=lambda value: value, store=kv("foreign")).to_stream().to("foreign", **TEXT)
    a.join(b, both, window=JoinWindows(30, grace=40), **TEXT).to("pairs", **TEXT)
    b.left_join(rows, both).to("enriched", **TEXT)


def seen(bench, name, layout, **how) -> Seen:
    application = bench.fresh(name)
    topology = renamed(build(one_of_each), f"{application}.")
    reads = inputs(topology, f"{application}.")
    case = Case(bench, topology, application, reads, outputs(topology), layout, {})
    try:
        case.run(script("one of each", reads, layout.partitions, **how))
        found = case.seen()
    finally:
        case.close()
    without = len(application) + 1
    return replace(found, sinks={topic[without:]: rows for topic, rows in found.sinks.items()})


def test_any_number_of_lanes_and_any_way_commit_the_same_records_of_each_key_in_the_same_order(bench):
    ways = {1: EVERY, 2: NONE, 4: EVERY_OTHER}  # which epochs are inline
    one, two, four = (seen(bench, f"lanes-{n}", Layout(n, 16, 3, chunks=2, inline=ways[n])) for n in (1, 2, 4))
    assert one.sinks.keys() == {"sums", "values", "windows", "joined", "foreign", "pairs", "enriched"}
    for other in (two, four):
        assert ordered(other, beside=one) == ordered(one, beside=other)


def ordered(found: Seen, *, beside: Seen) -> Seen:
    """The run with records without a key in any order: the producer chooses their partition.

    The broker cuts the changelogs of windows when it comes to it: of these only the rows that are there beside, too.
    """
    changelogs = {
        store: {
            name: row
            for name, row in rows.items()
            if store not in found.cut or name in beside.changelogs.get(store, {})
        }
        for store, rows in found.changelogs.items()
    }
    sinks = {
        topic: {
            key: rows if key is not None else sorted(repr(row[1:]) for _, row in rows) for key, rows in keys.items()
        }
        for topic, keys in found.sinks.items()
    }
    return replace(found, sinks=sinks, changelogs={store: rows for store, rows in changelogs.items() if rows})


def tables(found: Seen) -> dict[str, object]:
    """The last value of each key of a topic, and the stores without the times of their rows: a cache collapses updates."""
    last = {topic: {key: rows[-1][1].value for key, rows in keys.items()} for topic, keys in found.sinks.items()}
    stores = {name: sorted(repr(_without_time(row)) for row in _kept(rows)) for name, rows in found.stores.items()}
    return {"topics": last, "stores": stores}


def _kept(rows: list[tuple]) -> list[tuple]:
    """The rows without those of windows that have expired: they go when the shard is told of it, be it an epoch later."""
    windows = [row for row in rows if len(row) == 4]
    newest = max((start for _, start, _, _ in windows), default=0)
    return [row for row in rows if row not in windows or row[1] > newest - LATER]


def _without_time(row: tuple) -> tuple:
    return (row[0], row[1].value) if isinstance(row[1], ValueAndTimestamp) else row


def test_the_final_tables_do_not_depend_on_where_the_epochs_were_cut(bench):
    layouts = [Layout(2, 4, 2, chunks=1), Layout(2, 4, 2, chunks=2), Layout(4, 4, 2, chunks=8)]
    found = [seen(bench, f"cut-{number}", layout, in_order=True) for number, layout in enumerate(layouts)]
    assert [run.epochs for run in found] == [1, 2, 8]
    assert tables(found[1]) == tables(found[0])
    assert tables(found[2]) == tables(found[0])
