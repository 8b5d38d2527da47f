"""Growth: the cost of a record as one thing grows and the others stay: records, keys, lanes, levels, partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench import rate
from bench.peers.system import System
from bench.runs import Run
from bench.stage import Stage
from bench.workloads.base import Size
from bench.writing import Written, write

#: times the number of records of the workload
RECORDS = (0.5, 1.0, 2.0, 4.0)
KEYS = (1_000, 50_000, 1_000_000)
LANES = (1, 2, 4)
LEVELS = (1, 2, 3, 4)
PARTITIONS = (1, 4, 16)


@dataclass(frozen=True, slots=True)
class Variant:
    """One form of the workload."""

    name: str
    size: Size
    lanes: int
    levels: int = 1
    partitions: int = 4


def variants(size: Size, lanes: int) -> Iterator[Variant]:
    """Yield the forms, one thing grown in each.

    >>> [variant.name for variant in variants(Size(1000, 50_000), 2)][:3]
    ['500 records', '1,000 records', '2,000 records']
    """
    base = Variant("", size, lanes)
    for times in RECORDS:
        records = int(size.records * times)
        yield replace(base, name=f"{records:,} records", size=replace(size, records=records))
    for keys in KEYS:
        yield replace(base, name=f"{keys:,} keys", size=replace(size, keys=keys))
    for each in LANES:
        yield replace(base, name=f"{each} lanes", lanes=each)
    for each in LEVELS:
        yield replace(base, name=f"{each} levels", levels=each)
    for each in PARTITIONS:
        yield replace(base, name=f"{each} partitions", partitions=each)


def measure(stage: Stage, later: Written, system: System, application_id: str, number: int) -> list[Run]:
    """Measure all forms, each on data of its own."""
    return [
        _one(stage, later, system, f"{application_id}-{place}", number, variant)
        for place, variant in enumerate(variants(later.size, stage.threads))
    ]


def _one(stage: Stage, later: Written, system: System, application_id: str, number: int, variant: Variant) -> Run:
    options = {**later.workload.options, "levels": str(variant.levels)}
    workload = replace(later.workload, partitions=variant.partitions, options=options)
    written = write(stage.log, workload, variant.size, stage.progress, f"growing-{number}-")
    on_lanes = replace(stage, threads=variant.lanes)
    (run,) = rate.measure(on_lanes, written, system, application_id, number)
    stage.forget(application_id, *written.topics)
    return replace(run, variant=variant.name)
