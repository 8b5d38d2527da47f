"""From ``store=``, ``key=``, ``value=`` to the spec of the store that a table is kept in."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from penstock.dsl.graph import Graph
from penstock.errors import TopologyError
from penstock.operators.emit import EmitStrategy
from penstock.serde import Serde, Serdes
from penstock.serde.defaults import DEFAULT_KEY
from penstock.state.spec import StoreKind, StoreSpec
from penstock.topology.names import check_name
from penstock.windows import SessionWindows, SlidingWindows, UnlimitedWindows, Windows

#: what a group can be cut into
AnyWindows: TypeAlias = Windows | SlidingWindows | SessionWindows
#: of a stream-stream join: the beginning of its stores' names, or a spec for both sides, or one for this and one for the other
JoinStore: TypeAlias = str | StoreSpec | tuple[StoreSpec | None, StoreSpec | None] | None
#: of key and value; None: not known
Serdes2: TypeAlias = tuple[Serde[Any] | None, Serde[Any] | None]
_TABLE_KINDS = (StoreKind.KEY_VALUE, StoreKind.VERSIONED, StoreKind.LRU)


class Materialized(NamedTuple):
    """How a table is kept: the spec, and whether the user named it (only then it can be queried)."""

    spec: StoreSpec
    named: bool

    @property
    def versioned(self) -> bool:
        """Whether all versions of a row are kept."""
        return self.spec.kind is StoreKind.VERSIONED

    @property
    def queryable(self) -> str | None:
        """The store's name if the user gave it."""
        return self.spec.name if self.named else None


def table_store(
    graph: Graph,
    store: str | StoreSpec | None,
    prefix: str,
    given: Serdes2,
    upstream: Serdes2 = (None, None),
) -> Materialized:
    """Return the store of a table; without a name, one is generated (and a number used up).

    Serdes ``given`` with the operation come first, then the spec's own, then those from ``upstream``.
    """
    spec = given_spec(store, _TABLE_KINDS, "Stores.key_value, versioned or lru")
    named = spec is not None
    spec = spec or StoreSpec(graph.new_store(prefix), StoreKind.KEY_VALUE)
    versioned = spec.kind is StoreKind.VERSIONED
    cached = not versioned if spec.cached is None else spec.cached
    graph.claim(spec.name)
    return Materialized(_with_serdes(spec, given, upstream).with_(cached=cached, timestamped=not versioned), named)


def window_store(
    graph: Graph,
    store: str | StoreSpec | None,
    prefix: str,
    windows: AnyWindows,
    emit: EmitStrategy,
    given: Serdes2,
    upstream: Serdes2 = (None, None),
) -> Materialized:
    """Return the store of a windowed table, kept for as long as its windows can change."""
    session = isinstance(windows, SessionWindows)
    kind = StoreKind.SESSION if session else StoreKind.WINDOW
    spec = given_spec(store, (kind,), "Stores.session" if session else "Stores.window")
    named = spec is not None
    spec = spec or StoreSpec(graph.new_store(prefix), kind)
    least = windows.retention
    if spec.retention is not None and spec.retention < least and not isinstance(windows, UnlimitedWindows):
        raise TopologyError(
            f"store {spec.name!r} keeps windows for {spec.retention} ms, but {windows} needs {least} ms: raise its retention"
        )
    if spec.window_size not in (None, window_size(windows)) and not isinstance(windows, UnlimitedWindows):
        raise TopologyError(
            f"store {spec.name!r} is for windows of {spec.window_size} ms, but {windows} are {window_size(windows)} ms long"
        )
    on_close = emit is EmitStrategy.on_window_close
    spec = _with_serdes(spec, given, upstream).with_(
        retention=least if spec.retention is None else spec.retention,
        window_size=window_size(windows),
        timestamped=not session,
        time_ordered=on_close,
        # results on close are forwarded by the operator, once: there is nothing to cache
        cached=False if on_close else spec.cached is not False,
    )
    graph.claim(spec.name)
    return Materialized(spec, named)


def window_size(windows: AnyWindows) -> int | None:
    """Return the length of a window, for its key's serde and its store; sessions have none."""
    match windows:
        case SessionWindows():
            return None
        case SlidingWindows():
            return windows.difference
        case _:
            return windows.size


def windowed_key(windows: AnyWindows, key: Serde[Any] | None) -> Serde[Any]:
    """Return the serde of a windowed table's keys."""
    inner = key or DEFAULT_KEY
    if isinstance(windows, SessionWindows):
        return Serdes.session_windowed(inner)
    return Serdes.windowed(inner, window_size(windows))


def given_spec(store: Any, kinds: tuple[StoreKind, ...], wanted: str) -> StoreSpec | None:
    """Return what the user said about a store as a spec: a name is a spec of the first kind."""
    if store is None:
        return None
    if isinstance(store, str):
        return StoreSpec(check_name(store, "store"), kinds[0])
    if not isinstance(store, StoreSpec):
        raise TopologyError(f"store= takes a name or a spec ({wanted}), but got {store!r}")
    if store.kind not in kinds:
        raise TopologyError(f"store {store.name!r} is a {store.kind.value} store, but {wanted} is needed here")
    check_name(store.name, "store")
    return store


def _with_serdes(spec: StoreSpec, given: Serdes2, upstream: Serdes2) -> StoreSpec:
    key, value = given[0] or spec.key or upstream[0], given[1] or spec.value or upstream[1]
    return spec.with_(key=key, value=value)
