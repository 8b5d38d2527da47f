"""Which shards a key of a store may be in: one, wherever the plan says so; else all of them are asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from penstock.errors import BadKey, QueryError, UnknownStore, nearest
from penstock.plan.plan import Plan
from penstock.query.barriers import Position
from penstock.query.shard_views import GLOBAL
from penstock.record import Windowed
from penstock.serde import Serde, Serdes
from penstock.serde.windowed import SessionWindowedSerde, WindowedSerde
from penstock.state.shards import lane_of, shard_of
from penstock.state.spec import StoreKind, StoreSpec
from penstock.topology.node import SourceNode


class KeyMetadata(NamedTuple):
    """Where a key of a store is kept.

    None: of a global store every lane has it; after a partitioner of your own any shard may.
    """

    shard: int | None
    lane: int | None


class Routing:
    """The stores of a topology, and the shards of their keys."""

    def __init__(self, plan: Plan, shards: int, lanes: int) -> None:
        self._plan = plan
        self._shards = shards
        self._lanes = lanes
        self._every = tuple(range(shards))
        self._used = frozenset(store for step in plan.steps for store in step.stores)
        self._serdes = cache(self._find_serdes)

    def spec(self, name: str) -> StoreSpec:
        """Return a store of the topology; raise `UnknownStore` for another, and for one that nobody uses."""
        topology = self._plan.topology
        if name not in topology.stores:
            known = list(topology.stores)
            raise UnknownStore(f"there is no store {name!r}{nearest(str(name), known)}; the topology has {known}")
        if name not in self._used and name not in topology.global_stores:
            raise UnknownStore(f"no node uses the store {name!r}, so nothing is kept in it: connect it to a processor")
        return topology.stores[name]

    def all_of(self, spec: StoreSpec) -> Sequence[int]:
        """Return the shards of a store."""
        if spec.name in self._plan.topology.global_stores:
            return (GLOBAL,)
        return (0,) if spec.kind is StoreKind.SHARED else self._every

    def of_key(self, spec: StoreSpec, key: Any) -> Sequence[int]:
        """Return the shards that may have a key; raise `BadKey` for one that the store's serde refuses."""
        raw = raw_key(spec, key)
        shards = self.all_of(spec)
        serdes = self._serdes(spec.name)
        if len(shards) == 1 or serdes is None:
            return shards
        return tuple(sorted({shard_of(self._routed(serde, spec, key, raw), self._shards) for serde in serdes}))

    def metadata(self, spec: StoreSpec, key: Any) -> KeyMetadata:
        """Return where a key is kept."""
        shards = self.of_key(spec, key)
        if len(shards) != 1 or shards[0] == GLOBAL:
            return KeyMetadata(None, None)
        return KeyMetadata(shards[0], lane_of(shards[0], self._lanes))

    def check_position(self, position: Position) -> None:
        """Raise if a position names a topic that is not read: no barrier will ever have it."""
        topology = self._plan.topology
        sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode) and not node.internal]
        sources += [table.source for table in topology.global_stores.values()]
        for topic in {topic for topic, _ in position}:
            if not any(source.reads(topic) for source in sources):
                known = sorted({name for source in sources for name in source.topics})
                raise QueryError(
                    f"at_least= names the topic {topic!r}{nearest(topic, known)}, which the application does not read; "
                    f"it reads {known}"
                )

    def _find_serdes(self, name: str) -> tuple[Serde[Any], ...] | None:
        """Return the serdes by which the records of a store's nodes go to shards; None: keys do not tell it."""
        plan, topology = self._plan, self._plan.topology
        found: list[Serde[Any]] = []
        for node in topology.nodes:
            if name in topology.stores_of(node):
                if node not in plan.scopes:  # any key: a partition's, or those of a shared store
                    return None
                found += [serde for serde in plan.scopes[node] if serde not in found]
        key = topology.stores[name].key or Serdes.string
        inner = key.inner if isinstance(key, WindowedSerde | SessionWindowedSerde) else key
        known = all(serde in (key, inner) for serde in found)
        return tuple(found) if found and known else None

    @staticmethod
    def _routed(serde: Serde[Any], spec: StoreSpec, key: Any, raw: bytes) -> bytes:
        """Return the bytes by which a record with this key goes to its shard."""
        if serde == (spec.key or Serdes.string):
            return raw
        return serde.serialize(key.key if isinstance(key, Windowed) else key)


def raw_key(spec: StoreSpec, key: Any) -> bytes:
    """Return the bytes of a key; raise `BadKey` for one that the serde refuses."""
    serde = spec.key or Serdes.string
    if key is None:
        raise BadKey(f"store {spec.name!r}: the key must not be None; RangeQuery() without bounds gives all rows")
    try:
        return serde.serialize(key)
    except Exception as error:
        raise BadKey(
            f"store {spec.name!r}: {serde!r} refused the key {key!r} ({type(key).__name__}): {error}"
        ) from error
