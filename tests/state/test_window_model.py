"""Window stores against a naive model: a dict of all rows and Kafka's rules, written down as plainly as they can be."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.record import NO_ORIGIN, ValueAndTimestamp, Windowed
from penstock.serde import Serdes
from penstock.state.keys import window_key
from penstock.state.lmdb_store import LmdbState
from penstock.state.memory import MemoryState
from penstock.state.open import Standalone
from penstock.state.spec import Stores
from penstock.state.window import WindowStore

RETENTION, INTERVAL, SIZE = 25, 10, 5
KEYS = ["a", "ab", "a\0", "b", "", "ü"]
MAX = 2**63 - 1

keys = st.sampled_from(KEYS)
starts = st.integers(0, 70)
values = st.one_of(st.none(), st.integers(0, 5))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys, starts, values),
        st.tuples(st.just("put"), keys, starts, values),
        st.tuples(st.just("put"), keys, starts, values),
        st.tuples(st.sampled_from(["flush", "seal", "apply", "reopen"])),
        st.tuples(st.just("look"), keys, keys, starts, starts),
    ),
    max_size=40,
)


@dataclass
class Model:
    """All rows ever put, and what a reader may see of them."""

    persistent: bool
    time_ordered: bool
    duplicates: bool
    cached: bool = False
    rows: dict[tuple[bytes, int, int], tuple[int, int]] = field(default_factory=dict)
    observed: int = -1
    sequence: int = 0
    dropped: int = 0
    before: dict[tuple[bytes, int, int], tuple[int, int]] = field(default_factory=dict)  # rows as of the last seal
    written: dict[tuple[str, int], tuple[int | None, int, bool]] = field(
        default_factory=dict
    )  # since the last flush, last one last
    flushed: dict[tuple[str, int], int | None] = field(default_factory=dict)  # what was forwarded since the last seal

    def flush(self):
        """Return what a cached store forwards: (key, start, new, old, timestamp)."""
        updates = []
        for (key, start), (new, timestamp, live) in self.written.items():
            old = self.before.get((key.encode(), start, 0), (None,))[0] if live else None
            old = self.flushed.get((key, start), old)
            if new is not None or old is not None:
                updates.append((key, start, new, old, timestamp))
                self.flushed[key, start] = new
        self.written.clear()
        return updates

    def seal(self) -> None:
        self.before = dict(self.rows)
        self.flushed.clear()

    def put(self, key: str, start: int, value: int | None, timestamp: int) -> None:
        if self.duplicates and value is None:
            if not self.persistent:
                self.observed = max(self.observed, start)
            return
        self.sequence += self.duplicates
        self.written.pop((key, start), None)
        self.observed = max(self.observed, start)
        end = self.observed - RETENTION
        live = start // INTERVAL >= end // INTERVAL if self.persistent else start > end
        self.written[key, start] = value, timestamp, live
        if not live:
            self.dropped += 1
            return
        row = key.encode(), start, self.sequence
        if value is None:
            self.rows.pop(row, None)
        else:
            self.rows[row] = value, timestamp

    def first(self) -> int:
        end = self.observed - RETENTION
        return end if self.time_ordered and self.persistent else end + 1

    def visible(self):
        first = self.first()
        if self.cached and self.persistent:
            first = (self.observed - RETENTION) // INTERVAL * INTERVAL
        return [(key, start, number, *found) for (key, start, number), found in self.rows.items() if start >= first]

    def of_key(self, key: str, since: int, until: int):
        rows = [row for row in self.visible() if row[0] == key.encode() and since <= row[1] <= until]
        return [(start, value, ts) for _, start, _, value, ts in sorted(rows, key=lambda row: row[1:3])]

    def of_keys(self, since: int, until: int, lower: str | None = None, upper: str | None = None, by_time=False):
        def order(row):
            key, start, number = row[:3]
            if by_time or self.time_ordered or not self.persistent:
                return start, key + number.to_bytes(4, "big")
            return start // INTERVAL, window_key(key, start, number)

        rows = [row for row in self.visible() if since <= row[1] <= until]
        rows = [
            row
            for row in rows
            if (lower is None or lower.encode() <= row[0]) and (upper is None or row[0] <= upper.encode())
        ]
        return [(key.decode(), start, value, ts) for key, start, _, value, ts in sorted(rows, key=order)]


class Subject:
    """The store, driven step by step."""

    def __init__(self, state, spec):
        self.state, self.spec, self.context = state, spec, Standalone()
        self.pending = []
        self.forwarded = []
        self.touched = set()
        self.now = 0
        self.open()

    def open(self):
        self.store = WindowStore(self.spec, self.state, self.context, Serdes.string, Serdes.int64)
        self.store.on_flush(self.take, send_old=True)

    def take(self, windowed, new, old, timestamp, headers):
        assert windowed.end == windowed.start + SIZE
        self.forwarded.append((windowed.key, windowed.start, new, old, timestamp))

    def shape(self, value, timestamp):
        return ValueAndTimestamp(value, timestamp) if self.spec.timestamped else value

    def put(self, key, start, value):
        self.now += 1
        self.touched.add((key, start))
        self.context.origin = NO_ORIGIN._replace(timestamp=self.now)
        self.store.put(key, self.shape(value, self.now) if value is not None else None, start)

    def barrier(self, what):
        self.store.flush()
        if what != "flush":
            self.pending.append(self.store.seal())
        if what in ("apply", "reopen"):
            for sealed in self.pending:
                self.store.apply(sealed)
            self.pending.clear()
        if what == "reopen":
            self.open()


def check(subject: Subject, model: Model, lower, upper, since, until):
    store, shape = subject.store, subject.shape
    windowed = [(Windowed(k, s, s + SIZE), shape(v, ts)) for k, s, v, ts in model.of_keys(0, MAX)]
    assert list(store.all()) == windowed
    assert list(store.backward_all()) == windowed[::-1]
    span = [(Windowed(k, s, s + SIZE), shape(v, ts)) for k, s, v, ts in model.of_keys(since, until)]
    assert list(store.fetch_all(since, until)) == span
    assert list(store.backward_fetch_all(since, until)) == span[::-1]
    ranged = [(Windowed(k, s, s + SIZE), shape(v, ts)) for k, s, v, ts in model.of_keys(since, until, lower, upper)]
    assert list(store.fetch_range(lower, upper, since, until)) == ranged
    assert list(store.backward_fetch_range(lower, upper, since, until)) == ranged[::-1]
    in_time = [(k, s, v) for k, s, v, _ in model.of_keys(since, until, by_time=True)]
    read = [row[1:4] for row in store.read_all(since, until)]  # past the retention, too, while the segment is there
    assert [row for row in read if row in in_time] == in_time
    bound = min((start for _, start, _ in in_time), default=since)
    assert [row for row in read if row[1] >= bound] == in_time or not in_time
    for key in (lower, upper):
        rows = [(start, shape(value, ts)) for start, value, ts in model.of_key(key, since, until)]
        assert list(store.fetch(key, since, until)) == rows
        assert list(store.backward_fetch(key, since, until)) == rows[::-1]
        assert store.fetch_list(key, since, until) == [row[:2] for row in model.of_key(key, since, until)]
    if not subject.spec.retain_duplicates:
        for key, start in subject.touched:
            found = model.of_key(key, start, start)
            assert store.fetch(key, start) == (shape(*found[0][1:]) if found else None)
    assert subject.context.dropped.get("expired", 0) == model.dropped


@pytest.mark.parametrize("body", ["memory", "lmdb"])
@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cached": True},
        {"timestamped": True},
        {"timestamped": True, "cached": True},
        {"timestamped": True, "time_ordered": True},
        {"retain_duplicates": True},
        {"retain_duplicates": True, "time_ordered": True},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=steps)
def test_a_window_store_does_what_the_model_does(body, persistent, options, steps):
    options = dict(options)
    time_ordered = options.pop("time_ordered", False)
    spec = Stores.window("w", RETENTION, SIZE, persistent=persistent, **options)
    spec = spec.with_(segment_interval=INTERVAL, time_ordered=time_ordered)
    folder = tempfile.mkdtemp()
    state = MemoryState() if body == "memory" else LmdbState(folder)
    try:
        subject = Subject(state, spec)
        model = Model(persistent, time_ordered, spec.retain_duplicates, bool(spec.cached))
        for step in [*steps, ("look", "a", "b", 0, 70), ("reopen",), ("look", "a", "ü", 10, 60)]:
            if step[0] == "put":
                subject.put(*step[1:])
                model.put(*step[1:], subject.now)
            elif step[0] == "look":
                check(subject, model, *step[1:])
            else:
                subject.barrier(step[0])
                updates = model.flush()
                assert subject.forwarded == (updates if spec.cached else [])
                subject.forwarded.clear()
                if step[0] != "flush":
                    model.seal()
    finally:
        state.destroy()
        shutil.rmtree(folder, ignore_errors=True)
