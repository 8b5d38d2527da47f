"""Which store answers which query, and how: one table. What is not in it is refused, with what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import WrongQuery
from penstock.query import queries as q
from penstock.query.routing import Routing, raw_key
from penstock.record import ValueAndTimestamp
from penstock.state.merged import merged_rows
from penstock.state.spec import StoreKind, StoreSpec

KEYED = frozenset({StoreKind.KEY_VALUE, StoreKind.LRU, StoreKind.SHARED})
#: what to write, by the kind of a store
REMEDIES = {
    StoreKind.WINDOW: "WindowKeyQuery(key, since, until) or WindowRangeQuery(since, until)",
    StoreKind.SESSION: "SessionQuery(key)",
    StoreKind.VERSIONED: "VersionedKeyQuery(key, as_of) or MultiVersionedKeyQuery(key, since, until)",
}
_KEYED_REMEDY = "KeyQuery(key), RangeQuery(lower, upper) or PrefixQuery(prefix)"
_STAMPED_REMEDY = f"{_KEYED_REMEDY}, or with timestamps TimestampedKeyQuery(key) or TimestampedRangeQuery(lower, upper)"


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """How a query is answered: ``ask(store, query)`` gives a value, or an iterator if it gives ``rows``."""

    kinds: frozenset[StoreKind]
    ask: Callable[[Any, Any], Any]
    rows: bool = False
    #: only stores that keep the timestamps of rows
    stamped: bool = False


def _plain(rows: Iterator[Any]) -> Iterator[Any]:
    return ((key, value[0] if isinstance(value, ValueAndTimestamp) else value) for key, value in rows)


def _value(store: Any, query: Any) -> Any:
    row = store.peek(query.key)
    return None if row is None else row[0]


def _stamped_value(store: Any, query: Any) -> Any:
    row = store.peek(query.key)
    return None if row is None else ValueAndTimestamp(*row)


def _range(store: Any, query: Any) -> Iterator[Any]:
    verb = store.reverse_range if query.reverse else store.range
    return iter(verb(query.lower, query.upper))


WINDOW, SESSION, VERSIONED = (frozenset({kind}) for kind in REMEDIES)

ANSWERS: dict[type[q.Query], QueryAnswer] = {
    q.KeyQuery: QueryAnswer(KEYED, _value),
    q.TimestampedKeyQuery: QueryAnswer(KEYED, _stamped_value, stamped=True),
    q.RangeQuery: QueryAnswer(KEYED, lambda store, query: _plain(_range(store, query)), rows=True),
    q.TimestampedRangeQuery: QueryAnswer(KEYED, _range, rows=True, stamped=True),
    q.PrefixQuery: QueryAnswer(
        KEYED, lambda store, query: _plain(store.prefix_scan(query.prefix, query.serde)), rows=True
    ),
    q.WindowKeyQuery: QueryAnswer(
        WINDOW, lambda store, query: store.fetch(query.key, query.since, query.until), rows=True
    ),
    q.WindowRangeQuery: QueryAnswer(WINDOW, lambda store, query: store.fetch_all(query.since, query.until), rows=True),
    q.SessionQuery: QueryAnswer(SESSION, lambda store, query: store.fetch(query.key), rows=True),
    q.VersionedKeyQuery: QueryAnswer(VERSIONED, lambda store, query: store.get(query.key, query.as_of)),
    q.MultiVersionedKeyQuery: QueryAnswer(
        VERSIONED,
        lambda store, query: store.history(query.key, query.since, query.until, query.reverse),
        rows=True,
    ),
}


def answer_of(spec: StoreSpec, query: Any) -> QueryAnswer:
    """Return how a store answers a query; raise `WrongQuery`, with what to write, if it does not."""
    found = ANSWERS.get(type(query))
    if found is None:
        raise WrongQuery(f"{query!r} is not a query: write {remedy(spec)}")
    if spec.kind not in found.kinds or (found.stamped and not spec.timestamped):
        kind = (
            spec.kind.value if spec.kind not in KEYED or spec.timestamped else f"{spec.kind.value}, without timestamps"
        )
        raise WrongQuery(f"store {spec.name!r} ({kind}) does not answer {type(query).__name__}: write {remedy(spec)}")
    for name in ("since", "until", "as_of"):
        moment = getattr(query, name, None)
        if moment is not None and (not isinstance(moment, int) or isinstance(moment, bool)):
            raise WrongQuery(f"{type(query).__name__}: {name} is a time in milliseconds, an int, not {moment!r}")
    return found


def remedy(spec: StoreSpec) -> str:
    """Explain which queries a store answers."""
    if spec.kind in KEYED:
        return _STAMPED_REMEDY if spec.timestamped else _KEYED_REMEDY
    return REMEDIES.get(spec.kind, "none: it holds rows of the engine (timers, buffers), which are not queried")


def shards_asked(routing: Routing, spec: StoreSpec, query: q.Query) -> Sequence[int]:
    """Return the shards that a query reads: that of its key, or all; raise `BadKey` for what the serde refuses."""
    if hasattr(query, "key"):
        return routing.of_key(spec, query.key)
    for name in ("lower", "upper"):
        bound = getattr(query, name, None)
        if bound is not None:
            raw_key(spec, bound)
    if isinstance(query, q.PrefixQuery):
        raw_key(spec if query.serde is None else spec.with_(key=query.serde), query.prefix)
    return routing.all_of(spec)


def ask(answer: QueryAnswer, spec: StoreSpec, stores: list[Any], query: q.Query) -> Any:
    """Ask the stores of some shards: the value that one of them has, or their rows in the order of one store."""
    if not answer.rows:
        found = (answer.ask(store, query) for store in stores)
        return next((value for value in found if value is not None), None)
    if len(stores) == 1:
        return answer.ask(stores[0], query)
    if isinstance(query, q.MultiVersionedKeyQuery):  # all versions of a key are in one shard
        return (row for store in stores for row in answer.ask(store, query))
    verb = "reverse_range" if getattr(query, "reverse", False) else "range"
    return merged_rows(spec, [answer.ask(store, query) for store in stores], verb)
