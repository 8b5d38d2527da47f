"""The input of the benchmarks: purchases of many keys in one topic, the same for the same seed, and the totals they come to."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from penstock.log.base import Log, Row, TopicSpec

#: by key: how many purchases, and the sum of their amounts
Totals: TypeAlias = dict[bytes, tuple[int, int]]

CHUNK = 20_000
START_MS = 1_750_000_000_000
ITEMS = ("teapot", "cast-iron-kettle", "tin-of-green-tea", "cup", "wooden-tray", "sugar-bowl", "strainer", "spoon")
#: records are old the moment they are written: nothing may be deleted by age
KEPT = {"retention.ms": "-1"}


@dataclass(frozen=True, slots=True)
class DataSet:
    """What to write: ``records`` purchases of ``keys`` customers k0, k1, ... into ``topic``."""

    topic: str
    records: int
    keys: int = 50_000
    partitions: int = 4
    seed: int = 7


@dataclass(slots=True)
class Written:
    """What was written: the totals by key, and the next offset of each partition."""

    totals: Totals = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)


def purchases(data: DataSet) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield key, amount and value, the same for the same data set.

    >>> [value.decode() for _, _, value in purchases(DataSet("purchases", records=1))]
    ['{"order":0,"customer":"k16191","item":"sugar-bowl","amount":15,"paid":true}']
    """
    rng = random.Random(data.seed)
    for start in range(0, data.records, CHUNK):
        count = min(CHUNK, data.records - start)
        keys = rng.choices(range(data.keys), k=count)
        amounts = rng.choices(range(1, 100), k=count)
        items = rng.choices(ITEMS, k=count)
        for order, key, amount, item in zip(range(start, start + count), keys, amounts, items, strict=True):
            value = f'{{"order":{order},"customer":"k{key}","item":"{item}","amount":{amount},"paid":true}}'
            yield b"k%d" % key, amount, value.encode()


def rows(data: DataSet, totals: Totals) -> Iterator[Row]:
    """Yield the rows to write, one a millisecond; the totals grow with them."""
    for number, (key, amount, value) in enumerate(purchases(data)):
        count, total = totals.get(key, (0, 0))
        totals[key] = (count + 1, total + amount)
        yield data.topic, None, key, value, START_MS + number, ()


def write(log: Log, data: DataSet, progress: Progress | None = None) -> Written:
    """Make the topic and fill it; keys go to the partition to which Java's producer sends them."""
    log.admin.ensure_topics([TopicSpec(data.topic, data.partitions, KEPT)])
    written = Written()
    bar = progress.add_task("writing purchases", total=data.records) if progress else None
    producer = log.producer(None)
    producer.init()
    producer.begin()
    pending = rows(data, written.totals)
    for start in range(0, data.records, CHUNK):
        count = min(CHUNK, data.records - start)
        producer.produce(next(pending) for _ in range(count))
        if progress is not None and bar is not None:
            progress.update(bar, advance=count)
    producer.flush()
    written.ends = log.admin.end_offsets([(data.topic, partition) for partition in range(data.partitions)])
    return written


def progress_bar() -> Progress:
    """A bar on standard error, so that standard output is for results; nothing where it is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
