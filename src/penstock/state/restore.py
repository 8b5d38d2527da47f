"""From changelog rows back to base rows: what brings a shard up to a barrier it has not seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from penstock.state.base import ShardState
from penstock.state.bulk import ChangelogBuffer, Segmenting
from penstock.state.open import Standalone, open_store
from penstock.state.positions import SESSION, WINDOW
from penstock.state.segments import OBSERVED, segment_interval
from penstock.state.spec import StoreKind, StoreSpec
from penstock.state.ttl import StoreTime, index_key, index_name
from penstock.state.write_back import pack_stamp

#: (map name, key, value or None)
MapRow: TypeAlias = tuple[str, bytes, bytes | None]

#: stores whose base rows depend on the rows before: they are restored by doing it all again
REPLAYED = frozenset({StoreKind.VERSIONED, StoreKind.LRU})

#: stores with one base row for each key of the changelog
PLAIN = frozenset({StoreKind.KEY_VALUE, StoreKind.SHARED})


#: stores whose rows lie in segments of time, and how many bytes their keys have from the time on
BEHIND = {StoreKind.WINDOW: WINDOW.suffix_size, StoreKind.SESSION: SESSION.suffix_size}

#: rows and bytes of a store that are gathered before they are written
MOST_ROWS, MOST_BYTES = 500_000, 64 << 20
#: up to so many rows are made one by one in any store: what goes before the first column costs 0.3 ms, and a shard that another
#: executor has brought an epoch further has few
FEW = 500
#: the same as above, of a store whose base rows are always made one by one
MOST_SINGLE_ROWS = 100_000


class Restorer:
    """Changelog rows of a store on their way into a shard: gathered, because many together cost less, then written.

    >>> from penstock.serde import Serdes
    >>> from penstock.state.memory import MemoryState
    >>> from penstock.state.spec import Stores
    >>> spec, state = Stores.key_value("names", value=Serdes.string, timestamped=True), MemoryState()
    >>> rows = Restorer(spec)
    >>> rows.add([b"k", b"l"], [b"old", b"gone"], [1, 1])
    >>> rows.add([b"k", b"l"], [b"new", None], [2, 3])
    >>> len(rows), rows.write_to(state), len(rows)
    (4, None, 0)
    >>> list(open_store(spec, state, Standalone()).all())
    [('k', ValueAndTimestamp(value='new', timestamp=2))]
    """

    def __init__(self, spec: StoreSpec) -> None:
        self._spec = spec
        self._clear()

    def _clear(self) -> None:
        spec, self._held, self._size = self._spec, 0, 0
        self._rows: list[tuple[bytes, bytes | None, int]] = []
        self._columns: ChangelogBuffer | Segmenting | None = None
        if spec.kind in PLAIN and spec.ttl is None:
            self._columns = ChangelogBuffer(stamped=spec.timestamped)
        elif spec.kind in BEHIND and not spec.time_ordered and not spec.retain_duplicates:
            interval, behind = segment_interval(spec), BEHIND[spec.kind]
            self._columns = Segmenting(interval=interval, behind=behind, stamped=spec.timestamped)

    def __len__(self) -> int:
        return self._held

    def is_full(self) -> bool:
        """Whether it is time to write them."""
        if self._columns is None:
            return self._held >= MOST_SINGLE_ROWS
        size = self._size + sum(gathered.size for gathered in self._maps().values())
        return self._held >= MOST_ROWS or size >= MOST_BYTES

    def add(self, keys: list[bytes], values: list[bytes | None], times: list[int]) -> None:
        """Add rows that come after those before."""
        self._held += len(keys)
        if self._columns is None or self._held <= FEW:
            self._rows += zip(keys, values, times, strict=True)
            self._size += sum(map(len, keys)) + sum(len(value) for value in values if value is not None)
            return
        if self._rows:  # not few any more
            rows = self._rows
            self._columns.add([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])
            self._rows, self._size = [], 0
        self._columns.add(keys, values, times)

    def write_to(self, state: ShardState) -> None:
        """Bring the rows into the shard, atomically, and begin again without any."""
        if self._rows:
            restore(self._spec, state, self._rows)
        elif self._held:
            with state.batch():
                if isinstance(self._columns, Segmenting):
                    # without its number, the store finds its time again from the newest row
                    state.map(self._spec.name).write([(OBSERVED, None)])
                for name, gathered in self._maps().items():
                    plain, others = gathered.newest()
                    state.map(name).load(plain)
                    state.map(name).write(others)
        self._clear()

    def _maps(self) -> dict[str, ChangelogBuffer]:
        """Return the gathered rows of each map."""
        name, columns = self._spec.name, self._columns
        if isinstance(columns, Segmenting):
            return {f"{name}/{number}": gathered for number, gathered in columns.segments.items()}
        return {} if columns is None else {name: columns}


def restore(spec: StoreSpec, state: ShardState, rows: Iterable[tuple[bytes, bytes | None, int]]) -> None:
    """Bring changelog rows (key, value, timestamp), in order, into a shard, atomically; again and again as rows come.

    >>> from penstock.serde import Serdes
    >>> from penstock.state.memory import MemoryState
    >>> from penstock.state.spec import Stores
    >>> spec, state = Stores.key_value("names", value=Serdes.string, timestamped=True), MemoryState()
    >>> restore(spec, state, [(b"k", b"old", 1), (b"k", b"new", 2)])
    >>> open_store(spec, state, Standalone()).get("k")
    ValueAndTimestamp(value='new', timestamp=2)
    """
    if spec.kind in REPLAYED:
        store = open_store(spec.with_(logged=False), state, Standalone())
        for key, value, timestamp in rows:
            store.replay(key, value, timestamp)
        store.apply(store.seal())
        return
    if spec.kind in PLAIN and spec.ttl is None:
        state.map(spec.name).write(_newest(rows, spec.timestamped))
        return
    maps: dict[str, list[tuple[bytes, bytes | None]]] = {}
    time = StoreTime(state, spec.name) if spec.ttl is not None else None
    for key, value, timestamp in rows:
        for name, base_key, base_value in restore_row(spec, key, value, timestamp):
            maps.setdefault(name, []).append((base_key, base_value))
        if time is not None:
            time.advance(timestamp)
    if time is not None:
        maps.update(time.unsaved())
    with state.batch():
        for name, writes in maps.items():
            state.map(name).write(writes)


def _newest(rows: Iterable[tuple[bytes, bytes | None, int]], timestamped: bool) -> list[tuple[bytes, bytes | None]]:
    """Return the base rows of a key-value store, the newest of each key."""
    newest: dict[bytes, bytes | None]
    if timestamped:
        newest = {key: None if value is None else pack_stamp(time) + value for key, value, time in rows}
    else:
        newest = {key: value for key, value, _ in rows}
    return list(newest.items())


def restore_row(spec: StoreSpec, key: bytes, value: bytes | None, timestamp: int) -> list[MapRow]:
    """Return the base rows of one changelog row; not for the `REPLAYED` kinds, where a row alone does not say it."""
    match spec.kind:
        case StoreKind.KEY_VALUE | StoreKind.SHARED:
            return _key_value_rows(spec, key, value, timestamp)
        case StoreKind.WINDOW:
            from penstock.state.window import restore_window_row

            return restore_window_row(spec, key, value, timestamp)
        case StoreKind.SESSION:
            from penstock.state.session import restore_session_row

            return restore_session_row(spec, key, value, timestamp)
        case StoreKind.TIMERS:
            from penstock.state.timers import restore_timer_row

            return restore_timer_row(spec, key, value, timestamp)
        case StoreKind.OUTER_JOIN:
            from penstock.state import outer_join

            return outer_join.restore_rows(spec, key, value)
        case StoreKind.BUFFER if spec.retain_duplicates:
            from penstock.state import join_buffer

            return join_buffer.restore_rows(spec, key, value)
        case StoreKind.BUFFER:  # base rows are the changelog rows
            return [(spec.name, key, value)]
        case _:
            raise NotImplementedError(f"a {spec.kind.value} store is not restored row by row")


def _key_value_rows(spec: StoreSpec, key: bytes, value: bytes | None, timestamp: int) -> list[MapRow]:
    if value is None or not (spec.timestamped or spec.ttl is not None):
        return [(spec.name, key, value)]
    rows: list[MapRow] = [(spec.name, key, pack_stamp(timestamp) + value)]
    if spec.ttl is not None:
        rows.append((index_name(spec.name), index_key(timestamp, key), b""))
    return rows
