"""Rows of a store that keeps duplicates, put and found by column: the same as a list of all rows."""

from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Serdes, Stores
from penstock.state import duplicate_rows
from penstock.state.delta import StoreDelta
from penstock.state.duplicate_rows import DuplicateRows, SpanQuery
from penstock.state.memory import MemoryState

#: three segments of a minute and their edges
TIMES = (0, 1, 59_999, 60_000, 60_001, 119_999, 120_000, 120_001)
SPEC = Stores.window("kept", 1_000_000, 10, retain_duplicates=True, key=Serdes.bytes, value=Serdes.bytes)

puts = st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.sampled_from(TIMES)), min_size=1, max_size=4)
questions = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.sampled_from(TIMES), st.sampled_from(TIMES)), min_size=1, max_size=3
)  # fmt: skip
deeds = st.lists(
    st.one_of(
        st.tuples(st.just("lay"), puts),
        st.tuples(st.just("put"), puts),
        st.tuples(st.just("seal"), st.booleans()),
        st.tuples(st.just("apply"), st.none()),
        st.tuples(st.just("find"), questions),
    ),
    max_size=14,
)


class Kept:
    """The rows beside the list of them that they have to be equal to."""

    def __init__(self) -> None:
        self.rows = DuplicateRows(SPEC, MemoryState())
        self._listed: list[tuple[bytes, int, int]] = []
        self._numbers = count(1)
        self._sealed: list[Any] = []

    def lay(self, given_rows: list[tuple[bytes, int]]) -> None:
        keys, starts, numbers = self._listed_also(given_rows)
        times = np.array(starts)
        values = pa.array([b"%d" % number for number in numbers])
        self.rows.lay(StoreDelta(pa.array(keys), values, times, times, np.array(numbers)))

    def put(self, given_rows: list[tuple[bytes, int]]) -> None:
        for key, start, number in zip(*self._listed_also(given_rows), strict=True):
            self.rows.put(key, (start, number), (b"%d" % number, start, (), None, 0))

    def _listed_also(self, given_rows: list[tuple[bytes, int]]) -> tuple[list[bytes], list[int], list[int]]:
        rows = [(key, start, next(self._numbers)) for key, start in given_rows]
        self._listed += rows
        self.rows.sequence = rows[-1][2]
        self.rows.observe(max(start for _, start, _ in rows))
        return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]

    def seal(self, at_once: bool) -> None:
        self._sealed.append(self.rows.seal(logged=True))
        if at_once:
            self.apply()

    def apply(self, _: None = None) -> None:
        for sealed in self._sealed:
            self.rows.apply(sealed)
        self._sealed.clear()

    def find(self, asked: list[tuple[bytes, int, int]]) -> None:
        keys, since, until = zip(*asked, strict=True)
        places, times = np.arange(len(keys)), np.full(len(keys), self.rows.observed)
        found = self.rows.find(SpanQuery(pa.array(keys), places, np.array(since), np.array(until)), None, times)
        seen = (
            []
            if found is None
            else list(zip(found.at.tolist(), found.starts.tolist(), found.values.to_pylist(), strict=True))
        )
        wanted = [
            (place, start, b"%d" % number)
            for place, (key, first, last) in enumerate(asked)
            for start, number in sorted((s, n) for k, s, n in self._listed if k == key and first <= s <= last)
        ]
        assert seen == wanted


@pytest.mark.parametrize("whole", [0, 1 << 20], ids=["key by key", "a segment at a time"])
@settings(max_examples=300, deadline=None)
@given(deeds, questions)
def test_rows_are_found_wherever_they_are(whole, todo, last):
    kept = Kept()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicate_rows, "_WHOLE", whole)
        for deed, what in [*todo, ("find", last)]:
            getattr(kept, deed)(what)


def test_the_newest_row_of_the_base_is_found_by_who_asks_from_its_time_on():
    kept = Kept()
    kept.lay([(b"a", 60_001)])
    kept.seal(at_once=True)
    kept.find([(b"a", 60_001, 60_001)])


def test_a_sealed_row_is_found_before_it_is_applied():
    kept = Kept()
    kept.lay([(b"a", 1)])
    kept.seal(at_once=False)
    kept.find([(b"a", 1, 1)])
