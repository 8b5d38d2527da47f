"""Rows on their way between tasks of one machine: files that large epochs use again, and that small ones do not keep."""

from __future__ import annotations

from pathlib import Path

from penstock import Serdes, StreamsBuilder

START = 1_700_000_000_000
ROWS = 300


def counts(lines, out):
    builder = StreamsBuilder()
    words = builder.stream(lines, value=Serdes.string).group_by(lambda _, word: word)
    words.count(store="counts").to_stream().to(out, value=Serdes.int64)
    return builder


def staged(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.glob("*/staging/*/*")}


def test_files_are_used_again_by_large_epochs_and_deleted_by_a_small_one(start, cluster):
    lines, out = cluster.topic("lines", 2), cluster.topic("out")
    driven = start(counts(lines, out), inline_epoch_records=5)
    files = []
    for epoch in range(4):  # rows of different sizes, so that one file is written over by more and by less
        size = 40 if epoch % 2 else 1
        cluster.send(lines, *((None, f"{n % 7}" * size, START + n, n % 2) for n in range(ROWS)))
        driven.drain()
        files.append(staged(start.folder))
    expected = {f"{n}" * size: 2 * len(range(n, ROWS, 7)) for n in range(7) for size in (1, 40)}
    assert dict(cluster.numbers(out)) == expected
    assert files[0]
    # which worker has which task is Spark's choice, so an epoch may need some files more; but they do not add up
    assert files[2].items() & files[3].items()
    assert len(files[3]) <= 2 * len(files[0])
    cluster.send(lines, (None, "few", START, 0))
    driven.drain()
    assert staged(start.folder) == {}
    assert dict(cluster.numbers(out)) == expected | {"few": 1}
    cluster.send(lines, *((None, "again", START + n, n % 2) for n in range(ROWS)))
    driven.drain()
    assert staged(start.folder)
    assert dict(cluster.numbers(out)) == expected | {"few": 1, "again": ROWS}
    driven.close()
    assert staged(start.folder) == {}
