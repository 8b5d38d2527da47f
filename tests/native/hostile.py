"""Give one loop in C sound input, compared with a model, and hostile bytes: random, truncated, flipped, numbers out of any range.

To be run as a program under the sanitizers: ``python hostile.py <loop> <library>``. What is damaged may be refused, or accepted if it is
sound by chance; it is never a wild read or write, which would end the program.
"""

from __future__ import annotations

import contextlib
import importlib.util
import random
import sys
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from penstock.native import record_batches, sorted_runs
from penstock.native.columns import column_of

NUMBERS = (0, 1, 2, 3, -1, -2, 7, 63, 64, 65, 255, 1 << 15, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 62, -(1 << 62))
REFUSED = (ValueError, OverflowError, TypeError, MemoryError, IndexError, BufferError)
LARGE = (1 << 31) - 1


def load(name: str, path: str) -> Any:
    loader = ExtensionFileLoader(f"_{name}", path)
    spec = importlib.util.spec_from_loader(f"_{name}", loader)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


def some_bytes(chosen: random.Random, most: int = 20) -> bytes:
    return chosen.choice([b"", b"common-" * chosen.randrange(4), b""]) + chosen.randbytes(chosen.randrange(most))


def some_column(chosen: random.Random, rows: int, *, nulls: bool = True) -> pa.Array:
    cut = chosen.randrange(4)
    items = [None if nulls and chosen.random() < 0.2 else some_bytes(chosen) for _ in range(rows + cut)]
    return pa.array(items, pa.binary())[cut:]


def damaged(chosen: random.Random, data: Any) -> Any:
    """Return bytes like these, but cut, longer, with flipped bits, or others altogether; memory of exactly that size."""
    if data is None:
        return chosen.choice([None, b"", chosen.randbytes(9)])
    whole = bytearray(data)
    kind = chosen.randrange(6)
    if kind == 0:
        return bytes(whole[: chosen.randrange(len(whole) + 1)])
    if kind == 1:
        return bytes(whole) + chosen.randbytes(chosen.randrange(20))
    if kind == 2 and len(whole) >= 4:
        at = 4 * chosen.randrange(len(whole) // 4)
        whole[at : at + 4] = (chosen.choice(NUMBERS) & 0xFFFFFFFF).to_bytes(4, sys.byteorder)
    elif kind == 3:
        return chosen.choice([None, b"", chosen.randbytes(chosen.randrange(60)), "text", 7])
    elif whole:
        for _ in range(chosen.randrange(1, 4)):
            whole[chosen.randrange(len(whole))] ^= 1 << chosen.randrange(8)
    return bytes(whole)


def number(chosen: random.Random, usual: int) -> int:
    return (
        usual
        if chosen.random() < 0.6
        else usual + chosen.choice([1, -1])
        if chosen.random() < 0.3
        else chosen.choice(NUMBERS)
    )


def damaged_column(chosen: random.Random, column: tuple[Any, ...]) -> tuple[Any, ...]:
    parts = list(column)
    which = chosen.randrange(5)
    if which < 3:
        parts[which] = damaged(chosen, parts[which])
    elif which == 3:
        parts[3] = number(chosen, parts[3])
    return tuple(parts)


def attempt(call: Callable[..., Any], *given: Any) -> Any:
    with contextlib.suppress(*REFUSED):
        return call(*given)


def grouping(loops: Any, chosen: random.Random) -> None:
    rows = chosen.choice([0, 1, 2, 9, 60, 300])
    array = some_column(chosen, rows, nulls=False)
    part = None if chosen.random() < 0.5 else np.array([chosen.choice(NUMBERS) for _ in range(rows)], np.int64)
    column = column_of(array)
    order, edges, last, *_ = loops.group(rows, *column[1:], part)
    keyed = sorted((0 if part is None else int(part[at]), key, at) for at, key in enumerate(array.to_pylist()))
    assert np.frombuffer(order, np.int64).tolist() == [at for *_, at in keyed]
    groups = {name: at for *name, at in ((p, k, a) for p, k, a in keyed) for name in [tuple(name)]}
    assert np.frombuffer(last, np.int64).tolist() == list(groups.values())
    assert len(edges) == 8 * (len(groups) + 1)
    shards = np.frombuffer(loops.shards(rows, column, 7, 3), np.int32).tolist()
    assert shards == [crc32(key) % 7 for key in array.to_pylist()]
    for _ in range(10):
        bad = damaged_column(chosen, column)
        parts = None if part is None else damaged(chosen, part.tobytes())
        attempt(loops.group, number(chosen, rows), *bad[1:], parts)
        attempt(loops.shards, number(chosen, rows), bad, number(chosen, 7), number(chosen, 3))


def some_headers(chosen: random.Random) -> Any:
    if chosen.random() < 0.5:
        return ()
    name = chosen.choice(["h", "", "\udcff", "naïve"])
    return tuple((name, chosen.choice([None, b"", some_bytes(chosen)])) for _ in range(chosen.randrange(3)))


def hostile_headers(chosen: random.Random) -> Any:
    return chosen.choice(
        [(), None, 7, "ab", ("a",), (("a",),), (("a", 1),), ((b"a", b"b"),), (("\ud800", b""),), [("a", None)]]
    )


def record_batch(loops: Any, chosen: random.Random) -> None:
    rows = chosen.choice([1, 2, 9, 60])
    keys, values = some_column(chosen, rows), some_column(chosen, rows)
    times = np.array([chosen.choice(NUMBERS) for _ in range(rows)], np.int64)
    headers = [some_headers(chosen) for _ in range(rows)]
    given = (rows, np.zeros(rows, np.int32), column_of(keys), column_of(values), times, headers, 1, 0)
    batch, twin = loops.RecordBatch(), record_batches.RecordBatch()
    for body, made in ((loops, batch), (record_batches, twin)):
        assert made.add(body.PartitionedRows(*given), 0, rows, LARGE, LARGE) == rows
        made.seal(5, 6, 7, True, 0)
    assert bytes(batch) == bytes(twin)
    batch.clear()
    for _ in range(12):
        bad: list[Any] = list(given)
        for which in chosen.sample(range(8), chosen.choice([1, 1, 2])):
            bad[which] = (
                lambda: number(chosen, rows),
                lambda: damaged(
                    chosen, np.array([chosen.choice(NUMBERS[:9]) for _ in range(rows)], np.int32).tobytes()
                ),
                lambda: damaged_column(chosen, given[2]),
                lambda: damaged_column(chosen, given[3]),
                lambda: damaged(chosen, times.tobytes()),
                lambda: chosen.choice([None, 7, [], [hostile_headers(chosen) for _ in range(rows)]]),
                lambda: chosen.choice([0, 1, 3, 1000, -1]),
                lambda: number(chosen, 0),
            )[which]()
        made = attempt(loops.PartitionedRows, *bad)
        if made is not None:
            made.runs()
            attempt(made.row, number(chosen, 0))
            sizes = (number(chosen, 0), number(chosen, bad[0]), number(chosen, 1000), number(chosen, 1000))
            attempt(batch.add, made, *sizes)
        attempt(batch.replace, damaged(chosen, b"records"))
        attempt(batch.seal, number(chosen, 1), number(chosen, 1), number(chosen, 1), True, number(chosen, 0))
        assert len(bytes(batch)) == len(batch) >= record_batches.FRAME
    for by_table in (True, False):
        assert loops.crc32c(bytes(batch), by_table) == record_batches.crc32c(bytes(batch))


def sorted_run(loops: Any, chosen: random.Random) -> None:
    def made(count: int) -> bytes:
        names = pa.array(sorted({some_bytes(chosen) for _ in range(count)}), pa.binary())
        values, times = some_column(chosen, len(names)), np.arange(len(names)) if chosen.random() < 0.3 else None
        given = (len(names), column_of(names), column_of(values), times)
        packed: bytes = loops.pack(*given)
        assert packed == sorted_runs.pack(*given)
        for _ in range(3):
            columns = damaged_column(chosen, given[1]), damaged_column(chosen, given[2])
            stamps = None if times is None else damaged(chosen, times.tobytes())
            attempt(loops.pack, number(chosen, len(names)), *columns, stamps)
        return packed

    runs = [made(chosen.choice([0, 1, 2, 9, 60])) for _ in range(chosen.randrange(1, 4))]
    asked = column_of(some_column(chosen, 9, nulls=False))
    questions: list[tuple[str, Callable[[list[Any]], tuple[Any, ...]]]] = [
        ("find", lambda some: (some, b"common-")),
        ("find_many", lambda some: (some, 9, *asked[1:])),
        ("rows", lambda some: (some, None, None, False, 100)),
        ("rows", lambda some: (some, b"a", b"\xf0", True, 5)),
        ("count", lambda some: (some,)),
        ("merge", lambda some: (some, True)),
        ("merge", lambda some: (some, False)),
        ("unpack", lambda some: (some[0],)),
    ]
    for name, given in questions:
        assert getattr(loops, name)(*given(runs)) == getattr(sorted_runs, name)(*given(runs)), name
    for _ in range(6):
        bad = [damaged(chosen, run) if chosen.random() < 0.7 else run for run in runs]
        for name, given in questions:
            attempt(getattr(loops, name), *given(bad))
        attempt(loops.find_many, runs, number(chosen, 9), *damaged_column(chosen, asked)[1:])


PROGRAMS = {"grouping": grouping, "record_batches": record_batch, "sorted_runs": sorted_run}


def main(name: str, path: str) -> None:
    loops = load(name, path)
    for seed in range(150):
        PROGRAMS[name](loops, random.Random(seed))


if __name__ == "__main__":
    main(*sys.argv[1:])
