"""From ``store=`` of a stream-stream join to its stores: one for the records of each side, one for what has no match yet."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.dsl.stores import JoinStore, given_spec
from penstock.errors import TopologyError
from penstock.serde import Serde
from penstock.serde.defaults import DEFAULT_VALUE
from penstock.state.outer_join import LeftOrRightSerde
from penstock.state.spec import StoreKind, StoreSpec
from penstock.windows import JoinWindows


class GivenStores(NamedTuple):
    """What the user said: ``base`` for both sides, its name the beginning of theirs; or a store for ``this``, for ``other``."""

    base: StoreSpec | None = None
    this: StoreSpec | None = None
    other: StoreSpec | None = None


def given_stores(store: JoinStore, windows: JoinWindows) -> GivenStores:
    """Read ``store=``: a name, a spec, or ``(this, other)``, of which one may be None."""
    if not isinstance(store, tuple):
        return GivenStores(given_spec(store, (StoreKind.WINDOW,), "Stores.window"))
    if len(store) != 2 or not all(isinstance(side, StoreSpec | None) for side in store) or store == (None, None):
        raise TopologyError(
            f"store= takes a name, a spec, or two specs of Stores.window (for this side and the other), but got {store!r}"
        )
    this, other = (given_spec(side, (StoreKind.WINDOW,), "Stores.window") for side in store)
    for spec in (this, other):
        if spec is not None:
            _check_side(spec, windows)
    if this is not None and other is not None and this.name == other.name:
        raise TopologyError(f"both stores of the join are called {this.name!r}: give them different names")
    return GivenStores(None, this, other)


def _check_side(spec: StoreSpec, windows: JoinWindows) -> None:
    if not spec.retain_duplicates:
        raise TopologyError(f"store {spec.name!r} must have retain_duplicates=True: a join keeps every record of a key")
    if (spec.retention, spec.window_size) != (windows.retention, windows.size):
        raise TopologyError(
            f"store {spec.name!r} has retention={spec.retention} and size={spec.window_size}, but {windows} needs "
            f"retention={windows.retention} and size={windows.size}"
        )


def side_store(
    base: StoreSpec | None, given: StoreSpec | None, name: str, windows: JoinWindows, key: Any, value: Any
) -> StoreSpec:
    """Return the store of one side. ``name`` is that of a store that is not given."""
    spec = given or base or StoreSpec(name, StoreKind.WINDOW)
    return spec.with_(
        name=f"{name}-store" if given is None else given.name,
        key=key,
        value=value,
        cached=False,
        timestamped=False,
        retention=windows.retention,
        window_size=windows.size,
        retain_duplicates=True,
        # several rows have the same key: compaction would lose all but one
        topic_config=_with(spec, "cleanup.policy", "delete"),
        log_headers=True,
    )


def _with(spec: StoreSpec, setting: str, value: str) -> tuple[tuple[str, str], ...]:
    return tuple({**dict(spec.topic_config), setting: value}.items())


def shared_store(
    given: GivenStores, name: str, key: Serde[Any] | None, value: Serde[Any] | None, other: Serde[Any] | None
) -> StoreSpec:
    """Return the store of the records without a match, which is as the one of this side is."""
    like = given.this or given.base
    either = LeftOrRightSerde(value or DEFAULT_VALUE, other or DEFAULT_VALUE)
    spec = StoreSpec(f"{name}-store", StoreKind.OUTER_JOIN, key, either, cached=False)
    if like is None:
        return spec
    return spec.with_(
        persistent=like.persistent,
        kept_by_default=like.kept_by_default,
        logged=like.logged,
        topic_config=like.topic_config,
    )
