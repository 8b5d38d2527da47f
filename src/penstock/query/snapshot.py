"""A snapshot: all stores at one barrier, until it is closed."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import WrongQuery
from penstock.query.answers import answer_of, ask, remedy, shards_asked
from penstock.query.barriers import Position
from penstock.query.queries import Query, WindowKeyQuery
from penstock.query.reading import Reading
from penstock.query.result import QueryResult
from penstock.query.routing import Routing
from penstock.query.views import BarrierReader, QueryView
from penstock.state.spec import StoreKind
from penstock.state.view import VERBS


class Snapshot:
    """All stores as of one barrier. A context manager; any thread may read; what it sees does not move.

    LMDB keeps the pages of the barrier until the snapshot is closed, or its time is over: close it when it is not
    needed any more."""

    def __init__(self, reading: Reading, routing: Routing) -> None:
        self._reading = reading
        self._routing = routing

    @property
    def epoch(self) -> int:
        """The epoch of its barrier."""
        return self._reading.barrier.epoch

    @property
    def position(self) -> Position:
        """The last offset of each source partition that is part of its barrier."""
        return self._reading.barrier.position

    def store(self, name: str) -> QueryView:
        """Return a store, read-only."""
        return view_of(self._routing, name, self)

    def query(self, store: str, query: Query) -> QueryResult:
        """Answer a query."""
        return answered(self._routing, store, query, self)

    def reading(self, shards: Sequence[int]) -> tuple[Reading, bool]:
        """Return what is read: all shards are open."""
        return self._reading, False

    def close(self) -> None:
        """Give back what it holds. Reading it afterwards is an error."""
        self._reading.close()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def view_of(routing: Routing, name: str, reader: BarrierReader) -> QueryView:
    """Return the reading verbs of a store; raise if there is none, or it cannot be read."""
    spec = routing.spec(name)
    if spec.kind not in VERBS:
        raise WrongQuery(f"store {name!r} ({spec.kind.value}) cannot be queried: {remedy(spec)}")
    return QueryView(spec, routing, reader)


def answered(routing: Routing, store: str, query: Query, reader: BarrierReader) -> QueryResult:
    """Answer a query at the barrier that the reader gives."""
    spec = routing.spec(store)
    answer = answer_of(spec, query)
    shards = shards_asked(routing, spec, query)
    if spec.kind in (
        StoreKind.WINDOW,
        StoreKind.SESSION,
    ):  # as in Kafka, a query does not read what only a cache still has
        spec = spec.with_(cached=False)
    reading, owned = reader.reading(shards)
    rows = None
    try:
        found = ask(answer, spec, reading.stores(spec, shards), query)
        rows = reading.guarded(iter(found), owned=owned) if answer.rows else None
    finally:
        if owned and rows is None:
            reading.close()
    first = "window_start" if isinstance(query, WindowKeyQuery) else "key"
    return QueryResult(reading.barrier, value=None if answer.rows else found, rows=rows, first_column=first)
