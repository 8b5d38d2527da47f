"""What came out, and what must: collected in the same way from a topic and from the plain Python of a workload, and compared."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bench.workloads.base import Compare, Emission
from penstock.errors import PenstockError
from penstock.log.base import Log

#: for a sum of hashes that stays a small number
MASK = (1 << 64) - 1
#: records that are shown of a difference
SHOWN = 3


class ResultsDiffer(PenstockError):
    """A system has not made of the data what it must."""


@dataclass(slots=True)
class Collected:
    """Results. ``LAST``: a table by key. ``ORDERED``: a hash by key, of all its records one after the other. ``ALL``: how many, and
    a sum over their hashes that no order changes.
    """

    compare: Compare
    last: dict[bytes | None, bytes] = field(default_factory=dict)
    chains: dict[bytes | None, int] = field(default_factory=dict)
    count: int = 0
    digest: int = 0

    def add(self, emissions: Iterable[Emission]) -> Collected:
        """Take records in order.

        >>> Collected(Compare.LAST).add([(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None)]).last
        {b'a': b'2'}
        """
        match self.compare:
            case Compare.LAST:
                self._add_last(emissions)
            case Compare.ORDERED:
                self._add_ordered(emissions)
            case Compare.ALL:
                self._add_all(emissions)
        return self

    def _add_last(self, emissions: Iterable[Emission]) -> None:
        last = self.last
        for key, value in emissions:
            self.count += 1
            if value is None:
                last.pop(key, None)
            else:
                last[key] = value

    def _add_ordered(self, emissions: Iterable[Emission]) -> None:
        chains = self.chains
        for key, value in emissions:
            self.count += 1
            chains[key] = hash((chains.get(key, 0), value))

    def _add_all(self, emissions: Iterable[Emission]) -> None:
        for emission in emissions:
            self.count += 1
            self.digest = (self.digest + hash(emission)) & MASK

    @property
    def results(self) -> int:
        """How many results there are: keys of a table, or records."""
        return len(self.last) if self.compare is Compare.LAST else self.count

    def equals(self, other: Collected) -> bool:
        """Tell whether both came to the same. How often a table was updated on the way does not count."""
        if self.compare is Compare.LAST:
            return self.last == other.last
        return (self.count, self.digest, self.chains) == (other.count, other.digest, other.chains)


def committed(log: Log, topic: str, partitions: int) -> Iterator[Emission]:
    """Yield the records of a topic as a reader of committed records sees them."""
    places = [(topic, partition) for partition in range(partitions)]
    starts, ends = log.admin.earliest_offsets(places), log.admin.end_offsets(places)
    reader = log.reader()
    try:
        for place in places:
            for _, batch in reader.batches(*place, starts[place], ends[place]):
                for key, value, _ in batch:
                    yield key, value
    finally:
        reader.close()


def check(found: Collected, right: Collected, again: Iterable[Emission], expected: Iterable[Emission]) -> None:
    """Raise ``ResultsDiffer`` unless what was found is right. ``again`` and ``expected`` are read only to say where it is not."""
    if found.equals(right):
        return
    match right.compare:
        case Compare.LAST:
            wrong = _of_tables(found.last, right.last)
        case Compare.ORDERED:
            wrong = _of_lists(_by_key(again), _by_key(expected))
        case Compare.ALL:
            wrong = _of_sets(Counter(again), Counter(expected))
    shown = list(itertools.islice(wrong, SHOWN))
    raise ResultsDiffer(
        f"results are wrong ({right.compare.value}): {found.results:,} instead of {right.results:,}; such as "
        + "; ".join(shown)
    )


def _of_tables(found: dict[bytes | None, bytes], right: dict[bytes | None, bytes]) -> Iterator[str]:
    for key, value in right.items():
        if found.get(key) != value:
            yield f"{key!r}: {found.get(key)!r} instead of {value!r}"
    for key in found.keys() - right.keys():
        yield f"{key!r}: {found[key]!r}, which must not be there"


def _of_sets(found: Counter[Emission], right: Counter[Emission]) -> Iterator[str]:
    for emission, count in (right - found).items():
        yield f"{emission!r} is missing ({count} times)"
    for emission, count in (found - right).items():
        yield f"{emission!r} is too many ({count} times)"


def _by_key(emissions: Iterable[Emission]) -> dict[bytes | None, list[bytes | None]]:
    found: dict[bytes | None, list[bytes | None]] = {}
    for key, value in emissions:
        found.setdefault(key, []).append(value)
    return found


def _of_lists(
    found: dict[bytes | None, list[bytes | None]], right: dict[bytes | None, list[bytes | None]]
) -> Iterator[str]:
    for key in right.keys() | found.keys():
        mine, wanted = found.get(key, []), right.get(key, [])
        if mine != wanted:
            at = next((n for n, (a, b) in enumerate(zip(mine, wanted, strict=False)) if a != b), len(mine))
            yield f"{key!r} has {len(mine)} records instead of {len(wanted)}, and number {at} is the first that is wrong"


def collected(log: Log, topic: str, partitions: int, compare: Compare) -> Collected:
    """Read a topic of results."""
    return Collected(compare).add(committed(log, topic, partitions))
