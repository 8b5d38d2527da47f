"""What the loop in C and its twin write is what the format says, byte for byte."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import reference
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.log.partitioner import partition_for
from penstock.log.row_size import row_bytes
from penstock.native import record_batches
from penstock.native.columns import column_of
from penstock.native.loader import in_c

loops = in_c("record_batches")
built = pytest.mark.skipif(loops is None, reason="the loops in C are not built here")
BODIES = pytest.mark.parametrize(
    "body", [pytest.param(loops, id="in C", marks=built), pytest.param(record_batches, id="in Python")]
)

BYTES = st.none() | st.binary(max_size=40) | st.sampled_from([b"", b"x" * 63, b"x" * 64, b"y" * 8191, b"z" * 8192])
TIMES = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**41) | st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)])
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple)
ROWS = st.lists(st.tuples(BYTES, BYTES, TIMES, HEADERS), min_size=1, max_size=30)
LARGE = 2**31 - 1


def rows_of(body, rows, places=None, spread=1, turn=0, cut=0, headers=True):
    """Rows as the loop takes them; ``cut``: they are a part of larger columns, from this row on."""
    keys = pa.array([b"before"] * cut + [row[0] for row in rows], pa.binary())[cut:]
    values = pa.array([None] * cut + [row[1] for row in rows], pa.binary())[cut:]
    times = np.array([row[2] for row in rows], np.int64)
    given = [row[3] for row in rows] if headers else None
    numbers = None if places is None else np.array(places, np.int32)
    return body.PartitionedRows(len(rows), numbers, column_of(keys), column_of(values), times, given, spread, turn)


@BODIES
@given(
    ROWS, st.integers(0, 9), st.integers(-1, 2**62), st.integers(-1, 2**15 - 1), st.integers(-1, LARGE), st.booleans()
)
def test_a_batch_is_what_the_format_says(body, rows, cut, identity, epoch, sequence, transactional):
    batch = body.RecordBatch()
    assert batch.add(rows_of(body, rows, [0] * len(rows), cut=cut), 0, len(rows), LARGE, LARGE) == len(rows)
    batch.seal(identity, epoch, sequence, transactional, 0)
    assert bytes(batch) == reference.batch(rows, identity, epoch, sequence, transactional)
    assert batch.count == len(rows)


@BODIES
@given(ROWS, st.integers(0, 9))
def test_rows_without_headers_have_none(body, rows, cut):
    batch, bare = body.RecordBatch(), [(*row[:3], ()) for row in rows]
    batch.add(rows_of(body, rows, [0] * len(rows), cut=cut, headers=False), 0, len(rows), LARGE, LARGE)
    batch.seal(1, 2, 3, True, 0)
    assert bytes(batch) == reference.batch(bare, 1, 2, 3, True)


@BODIES
@pytest.mark.parametrize("size", [0, 1, 62, 63, 64, 8190, 8191, 8192, 1 << 20, (1 << 20) + 1])
def test_lengths_of_all_sizes_are_written(body, size):
    rows = [(b"k" * size, b"v" * (size // 2), 7, (("h" * (size % 100), b"w" * size),)), (None, b"", 6, ())]
    batch = body.RecordBatch()
    batch.add(rows_of(body, rows, [0, 0]), 0, 2, LARGE, LARGE)
    batch.seal(1, 2, 3, False, 0)
    assert bytes(batch)[61:] == reference.batch(rows, 1, 2, 3)[61:]


@BODIES
@pytest.mark.parametrize("by_table", [True, False])
def test_checksums_have_the_known_answers(body, by_table):
    known = {
        b"": 0,
        b"123456789": 0xE3069283,
        bytes(32): 0x8A9136AA,
        b"\xff" * 32: 0x62A8AB43,
        bytes(range(32)): 0x46DD794E,
    }
    assert {data: body.crc32c(data, by_table) for data in known} == known


@built
@given(st.binary(max_size=300))
def test_checksums_by_table_and_by_the_processor_are_the_same(data):
    assert loops.crc32c(data, True) == loops.crc32c(data, False) == reference.crc32c(data)


@BODIES
@given(ROWS, st.integers(61, 500))
def test_a_batch_grows_to_its_limit_and_a_row_alone_to_its_own(body, rows, limit):
    given, first, largest, batches = rows_of(body, rows, [0] * len(rows)), 0, 9000, []
    while first < len(rows):
        batch = body.RecordBatch()
        after = batch.add(given, first, len(rows), limit, largest)
        taken = rows[first:after]
        if not taken:
            assert len(reference.batch([rows[first]])) > largest
            assert row_bytes(("t", 0, *rows[first])) > largest
            assert len(batch) == 61
            first += 1
            continue
        assert len(batch) == len(reference.batch(taken)) <= (limit if len(taken) > 1 else largest)
        if after < len(rows) and len(taken) > 1:
            assert len(reference.batch(rows[first : after + 1])) > limit
        batches.append(batch)
        first = after
    assert sum(batch.count for batch in batches) == sum(len(reference.batch([row])) <= largest for row in rows)


@BODIES
@given(
    st.lists(st.tuples(BYTES, st.integers(-1, 9))),
    st.integers(0, 8),
    st.integers(0, 50),
    st.integers(0, 5),
    st.booleans(),
)
@example([(None, -1)] * 5000, 3, 7, 0, True)
def test_rows_go_where_java_sends_them_in_order(body, keyed, spread, turn, cut, explicit):
    rows = [(key, b"%d" % n, 1, ()) for n, (key, _) in enumerate(keyed)]
    places = [place if explicit else -1 for _, place in keyed]
    given = rows_of(body, rows, places if explicit else None, spread, turn, cut, headers=False)
    runs = given.runs()
    assert [first for _, first, _ in runs] == [0, *(last for _, _, last in runs)][: len(runs)]
    assert sum(last - first for _, first, last in runs) == len(rows)
    lone = 0
    where = {n: partition for partition, first, last in runs for n in map(given.row, range(first, last))}
    for n, (key, _, _, _) in enumerate(rows):
        if places[n] >= 0 or not spread:
            assert where[n] == (places[n] if 0 <= places[n] < spread else -1)
        elif key is not None:
            assert where[n] == partition_for(key, spread)
        else:
            assert where[n] == (turn + lone // 1024) % spread
            lone += 1
    for _, first, last in runs:
        order = [given.row(at) for at in range(first, last)]
        assert order == sorted(order)


@BODIES
def test_a_batch_is_used_again(body):
    rows = [(b"k", b"v" * 10_000, 5, ())] * 3
    batch = body.RecordBatch()
    for _ in range(2):
        batch.add(rows_of(body, rows), 0, 3, LARGE, LARGE)
        batch.seal(1, 2, 3, True, 0)
        assert bytes(batch) == reference.batch(rows, 1, 2, 3, True)
        batch.clear()
        assert (batch.count, len(batch)) == (0, 61)


@built
def test_a_batch_that_somebody_looks_at_is_not_written():
    batch, rows = loops.RecordBatch(), rows_of(loops, [(b"k", b"v", 1, ())])
    batch.add(rows, 0, 1, 1000, 1000)
    with memoryview(batch):
        for write in (
            batch.clear,
            lambda: batch.add(rows, 0, 1, 1000, 1000),
            lambda: batch.seal(1, 1, 1, True, 0),
            lambda: batch.replace(b""),
        ):
            with pytest.raises(BufferError):
                write()
    batch.clear()


@built
def test_what_does_not_fit_together_is_refused():
    column = column_of(pa.array([b"a", b"b"], pa.binary()))
    times = np.arange(2)
    for wrong in (
        (3, None, column, column, np.arange(3), None, 1, 0),
        (2, None, column, column, times[:1], None, 1, 0),
        (2, np.zeros(1, np.int32), column, column, times, None, 1, 0),
        (2, None, column, column, times, [()], 1, 0),
        (-1, None, column, column, times, None, 1, 0),
        (2, None, column, column, times, None, -1, 0),
        (2, None, column, column, times, None, 1, -1),
        (1, None, (*column[:3], 2), column, times, None, 1, 0),
        (1, None, (*column[:3], -1), column, times, None, 1, 0),
        (1, None, (*column[:3], 2**62), column, times, None, 1, 0),
    ):
        with pytest.raises(ValueError, match=r"shorter|too large or negative"):
            loops.PartitionedRows(*wrong)
    outside = (None, np.array([0, 5, 1], np.int32), b"abc", 0)
    for broken in (
        outside,
        (None, np.array([-1, 0, 1], np.int32), b"abc", 0),
        (None, np.array([0, 1, 4], np.int32), b"abc", 0),
    ):
        with pytest.raises(ValueError, match="outside"):
            loops.PartitionedRows(2, None, broken, column, times, None, 1, 0)
    unaligned = np.frombuffer(b"\0" * 17, np.uint8)[1:].data
    with pytest.raises(ValueError, match="outside"):
        loops.PartitionedRows(2, None, (None, unaligned, b"abc", 0), column, times, None, 1, 0)
    rows, batch = loops.PartitionedRows(2, None, column, column, times, None, 1, 0), loops.RecordBatch()
    for first, last, limit, largest in ((-1, 1, 9, 9), (1, 0, 9, 9), (0, 3, 9, 9), (0, 1, -1, 9), (0, 1, 9, 2**31)):
        with pytest.raises(ValueError, match="no such rows"):
            batch.add(rows, first, last, limit, largest)
    with pytest.raises(IndexError):
        rows.row(2)
    with pytest.raises(ValueError, match="without rows"):
        batch.seal(1, 1, 1, True, 0)
    with pytest.raises(TypeError):
        batch.add("rows", 0, 1, 9, 9)


@built
@pytest.mark.parametrize("headers", ["ab", (("a",),), ((b"a", b"b"),), (("a", "b"),), ("ab",), (["a", b"b"],), None])
def test_headers_of_another_kind_are_refused(headers):
    batch = loops.RecordBatch()
    with pytest.raises(TypeError, match="header"):
        batch.add(rows_of(loops, [(b"k", b"v", 1, headers)]), 0, 1, 1000, 1000)
    assert batch.count == 0


@built
def test_a_batch_is_not_replaced_by_itself():
    column = column_of(pa.array([b"x" * 40_000], pa.binary()))
    rows = loops.PartitionedRows(1, None, column, column, np.array([1]), None, 1, 0)
    batch = loops.RecordBatch()
    batch.add(rows, 0, 1, 1 << 20, 1 << 20)
    before = bytes(batch)
    with pytest.raises(BufferError):
        batch.replace(batch)
    assert bytes(batch) == before
    batch.clear()  # nobody holds it
