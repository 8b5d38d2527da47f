"""What is read of a changelog is what the store shows, for every kind, without Kafka."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Serdes, Stores, Windowed
from penstock.engine.store_descriptions import OPTIONS, StoreDescription
from penstock.record import NO_ORIGIN
from penstock.sql.committed_store import CommittedStore, Split
from penstock.sql.last_rows import KeyedRows
from penstock.sql.store_rows import seen_rows
from penstock.state.event_time import EventTime
from penstock.state.memory import MemoryState
from penstock.state.open import Standalone, open_store
from penstock.state.spec import StoreSpec

BYTES = {"key": Serdes.bytes, "value": Serdes.bytes}
MINUTE = 60_000
WINDOW = Stores.window("s", 3 * MINUTE, 10_000, **BYTES)
SESSION = Stores.session("s", 3 * MINUTE, **BYTES)
KINDS = {
    "key-value": Stores.key_value("s", **BYTES),
    "timestamped": Stores.key_value("s", timestamped=True, **BYTES),
    "time to live": Stores.key_value("s", ttl=2 * MINUTE, **BYTES),
    "lru": Stores.lru("s", 3, **BYTES),
    "window": WINDOW,
    "cached window": WINDOW.with_(cached=True),
    "window in memory": WINDOW.with_(persistent=False),
    "window by time": WINDOW.with_(time_ordered=True),
    "window with duplicates": WINDOW.with_(retain_duplicates=True),
    "session": SESSION,
    "cached session": SESSION.with_(cached=True),
    "session in memory": SESSION.with_(persistent=False),
    "versioned": Stores.versioned("s", 2 * MINUTE, **BYTES),
}
PUTS = st.lists(
    st.tuples(
        st.sampled_from([b"", b"a", b"bb", b"b"]),
        st.one_of(st.none(), st.sampled_from([b"1", b"2", b""])),
        st.integers(0, 40).map(lambda n: n * 15_000),
    ),
    max_size=25,
)


def put(store, key, value, time):
    match store.spec.kind.value:
        case "window":
            store.put(key, value, time)
        case "session":
            store.put(Windowed(key, max(0, time - 5000), time), value)
        case "versioned":
            store.put(key, value, time)
        case _:
            store.write(key, value, time)


def described(spec):
    new = StoreSpec(spec.name, spec.kind)
    options = {name: getattr(spec, name) for name in OPTIONS if getattr(spec, name) != getattr(new, name)}
    return StoreDescription(name="s", kind=spec.kind.value, cached=bool(spec.cached), options=options)


def log_of(store):
    """Seal the epoch; return its changelog rows by column."""
    sealed = store.seal()
    rows = [tuple(row)[:3] for row in sealed.changelog]
    store.apply(sealed)
    keys, values = [row[0] for row in rows], [row[1] for row in rows]
    return KeyedRows(
        pa.array(keys, pa.binary()), pa.array(values, pa.binary()), np.array([r[2] for r in rows], np.int64)
    )


def shown(store, keys):
    match store.spec.kind.value:
        case "window":
            return sorted((w.key, value, w.start, w.end) for w, value in store.all())
        case "session":
            return sorted((w.key, value, w.start, w.end) for key in keys for w, value in store.fetch(key))
        case "versioned":
            return sorted((k, last.value, last.timestamp) for k in keys if (last := store.get(k)) is not None)
        case _:
            return sorted((key, value[0] if isinstance(value, tuple) else value) for key, value in store.all())


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(epochs=st.lists(PUTS, max_size=4), ahead=st.integers(0, 8).map(lambda n: n * 30_000))
def test_the_rows_of_a_changelog_are_those_of_the_store(kind, epochs, ahead):
    spec, context = KINDS[kind], Standalone()
    store = open_store(spec, MemoryState(), context)
    clock, logged = EventTime(), []
    if store.keeps_time:
        store.keep_time(clock)
    for puts in epochs:
        for key, value, time in puts:
            clock.reach(max(clock.now, time))
            store.reach()
            context.origin = NO_ORIGIN._replace(timestamp=time)
            put(store, key, value, time)
        clock.reach(clock.now + ahead if clock.now >= 0 else -1)
        store.reach()
        logged.append(log_of(store))
    snapshots = {"0": {"0": store.snapshot(), "1": {}}}
    found = CommittedStore("app", described(spec), 1, 1, (), snapshots, {})
    rows = seen_rows(found, Split(0, 1, ()), logged)
    kept = zip(rows.keys.to_pylist(), rows.values.to_pylist(), strict=True)
    if rows.starts is not None:
        got = [(*pair, a, b) for pair, a, b in zip(kept, rows.starts.tolist(), rows.ends.tolist(), strict=True)]
    elif kind == "versioned":
        got = [(*pair, time) for pair, time in zip(kept, rows.times.tolist(), strict=True)]
    else:
        got = list(kept)
    assert sorted(got) == shown(store, (b"", b"a", b"bb", b"b"))
