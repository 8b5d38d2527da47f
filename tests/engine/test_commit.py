"""From the rows that left the lanes to the rows that a producer is handed: by kind, in order, by topic, and counted."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa

from penstock.engine.commit import _by_name, _columns, _counts, _of_kind
from penstock.protocol.envelope import CHANGELOG, NOTE, SCHEMA, SINK, EnvelopeRow, pack_headers


def table(*batches):
    made = [[EnvelopeRow(*row) for row in batch] for batch in batches]
    return pa.Table.from_batches(
        [
            pa.RecordBatch.from_arrays(
                [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)],
                schema=SCHEMA,
            )
            for rows in made
        ]
    )


MIXED = table(
    [
        (SINK, 7, "b", -1, b"k", b"4", 4, None, None),
        (NOTE, 8, "", 0, None, b"a note", 0, None, None),
        (SINK, 5, "a", 1, None, b"3", 3, None, None),
        (CHANGELOG, 6, "s", 2, b"k", None, 2, None, None),
    ],
    [(SINK, 1, "a", 0, b"k", b"1", 1, None, None), (SINK, 2, "b", 0, b"k", None, 2, None, None)],
    [(CHANGELOG, n, "s", 2, b"k", b"v", 1, None, None) for n in (9, 10)],
    [
        (CHANGELOG, 11, "t", 0, b"k", b"v", 1, None, None),
        (CHANGELOG, 12, "s", 0, b"k", b"v", 1, None, None),
        (CHANGELOG, 13, "t", 2, b"k", b"v", 1, None, None),
    ],
)


def of_kind(kind):
    return _of_kind(SimpleNamespace(rows=MIXED), kind)


def test_rows_of_a_kind_are_in_the_order_of_the_epoch():
    assert of_kind(SINK)["route"].to_pylist() == [1, 2, 5, 7]
    assert of_kind(CHANGELOG)["route"].to_pylist() == [6, 9, 10, 11, 12, 13]
    assert of_kind(NOTE)["value"].to_pylist() == [b"a note"]


def test_each_topic_gets_its_own_rows_once_and_in_order():
    handed = [row for topic, batch in _by_name(of_kind(SINK)) for row in _columns(topic, batch).rows()]
    assert [row for row in handed if row[0] == "a"] == [("a", 0, b"k", b"1", 1, ()), ("a", 1, None, b"3", 3, ())]
    assert [row for row in handed if row[0] == "b"] == [("b", 0, b"k", None, 2, ()), ("b", None, b"k", b"4", 4, ())]
    assert len(handed) == 4


def test_rows_of_changelogs_are_counted_by_store_and_shard():
    assert _counts(of_kind(CHANGELOG)) == {("s", 2): 3, ("s", 0): 1, ("t", 0): 1, ("t", 2): 1}
    assert _counts(of_kind(CHANGELOG).slice(0, 0)) == {}


def test_headers_are_kept_and_others_added():
    rows = table(
        [
            (SINK, 1, "a", 0, b"k", b"1", 1, pack_headers((("h", b"1"),)), None),
            (SINK, 2, "a", 0, b"k", b"2", 1, None, None),
        ]
    )
    (batch,) = rows.to_batches()
    assert _columns("a", batch).headers == [(("h", b"1"),), ()]
    assert _columns("a", batch, (("epoch", b"7"),)).headers == [(("h", b"1"), ("epoch", b"7")), (("epoch", b"7"),)]
    assert _columns("a", batch.slice(1)).headers is None
