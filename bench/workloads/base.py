"""What a workload is: data, a job, and what the job must make of the data.

A workload says its job three times: as a topology of Penstock (``build``, in a module of its own that Spark's workers import), as a
plain Python generator over the rows (``expected``), and by the name under which the programs of the other systems know it
(``job``: a method in ``peers/Jobs.java``, a function in ``peers/quix.py``). All must give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from penstock import StreamsBuilder
from penstock.log.base import Row

#: a record that comes out: key and value, None if the key is deleted
Emission: TypeAlias = tuple[bytes | None, bytes | None]
#: the topology of a job: from source topics to a target; options come as text from the command line
Build: TypeAlias = Callable[..., StreamsBuilder]


class Compare(Enum):
    """What of the output must be equal."""

    LAST = "the last value of every key"
    ORDERED = "the records of every key, in order"
    ALL = "the whole set of records"


class Kind(Enum):
    """What is measured."""

    RATE = "records a second"
    LATENCY = "milliseconds from the producer to a reader of committed results"
    RESTORE = "changelog records a second, after the state folder was deleted"
    RESTART = "seconds to the next result, after a kill"
    GROWTH = "cost per record as one thing grows"
    ASKED = "milliseconds of results and of look-ups, with and without look-ups"
    ASKED_RATE = "records a second, with and without look-ups"


@dataclass(frozen=True, slots=True)
class Size:
    """How much data: ``records`` in all; what ``keys`` means is the workload's business."""

    records: int
    keys: int = 50_000


@dataclass(frozen=True, slots=True)
class Workload:
    """One comparison. ``inputs`` are the names of its topics, in the order in which the job takes them."""

    name: str
    title: str
    job: str
    inputs: Sequence[str]
    size: Size
    rows: Callable[[Size, Sequence[str]], Iterator[Row]]
    expected: Callable[[Iterable[Row]], Iterator[Emission]]
    compare: Compare
    partitions: int = 4
    kind: Kind = Kind.RATE
    #: given to every program as ``job.name=value``
    options: Mapping[str, str] = field(default_factory=dict)
    #: of Penstock, ``name=value``
    settings: Sequence[str] = ()
    #: records a second, where they come while the system runs
    rate: int = 0
    #: records of ``--quick``
    quick: int = 60_000
    #: numbers of records for systems that take much longer; they get topics of their own
    few: Mapping[str, int] = field(default_factory=dict)

    def topics(self, prefix: str = "") -> list[str]:
        """Return the full names of the input topics."""
        return [f"{prefix}{self.name}-{name}" for name in self.inputs]
