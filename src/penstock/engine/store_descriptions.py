"""What the epoch record says of each store, so that its changelog can be read without the program.

The canonical topology does not do for that: it leaves out what does not change the changelog's rows but decides which of them a
reader sees (caching), and says nothing of the way from a source topic to a shard.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.engine.fingerprint import MATTERS
from penstock.engine.record import EpochRecord, unpack
from penstock.operators.table_source import TableSource
from penstock.plan.plan import Plan
from penstock.serde import Serde, Serdes
from penstock.state.spec import StoreKind, StoreSpec
from penstock.topology.node import SourceNode

#: options of a store that decide what its changelog rows mean and which of them are seen
OPTIONS = tuple(name for name in MATTERS if name != "log_headers")


class StoreDescription(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One store, as plain data. ``key``, ``value``: the names of its serdes."""

    name: str
    kind: str
    key: str = ""
    value: str = ""
    cached: bool = False
    #: those of `OPTIONS` that are not what a new `StoreSpec` has
    options: dict[str, Any] = {}
    #: whether some node uses it: else nothing is kept in it
    used: bool = True
    #: "table": a copy of its topic in every executor; "processor": of what the user's processor made of it; "": no global store
    everywhere: str = ""
    #: of a store whose changelog is a source topic: all records are in the first shard
    one_shard: bool = False

    def spec(self) -> StoreSpec:
        """Return the store with bytes as its keys and values.

        >>> StoreDescription(name="counts", kind="key_value", options={"timestamped": True}).spec().timestamped
        True
        """
        spec = StoreSpec(self.name, StoreKind(self.kind), Serdes.bytes, Serdes.bytes, cached=self.cached)
        return spec.with_(**self.options)


def describe_stores(plan: Plan) -> str:
    """Return all stores of a topology as JSON.

    >>> from penstock import StreamsBuilder
    >>> from penstock.plan.passes import make_plan
    >>> builder = StreamsBuilder()
    >>> _ = builder.stream("lines").group_by(lambda key, value: value).count(store="counts")
    >>> print(describe_stores(make_plan(builder.build())))
    [{"name":"counts","kind":"key_value","key":"Serdes.string","value":"Serdes.int64","cached":true,"options":{"timestamped":true}}]
    """
    stores = plan.topology.stores
    return msgspec.json.encode([_described(plan, stores[name]) for name in sorted(stores)]).decode()


def read_descriptions(record: EpochRecord) -> dict[str, StoreDescription] | None:
    """Return the stores of an epoch record by name; None if it was written by a version that did not describe them."""
    if not record.stores:
        return None
    found = msgspec.json.decode(unpack(record.stores), type=list[StoreDescription])
    return {store.name: store for store in found}


def _described(plan: Plan, spec: StoreSpec) -> StoreDescription:
    topology, new = plan.topology, StoreSpec(spec.name, spec.kind)
    options = {name: getattr(spec, name) for name in OPTIONS if getattr(spec, name) != getattr(new, name)}
    everywhere = ""
    if spec.name in topology.global_stores:
        updater = topology.global_stores[spec.name].processor.operator
        everywhere = "table" if isinstance(updater, TableSource) else "processor"
    return StoreDescription(
        name=spec.name,
        kind=spec.kind.value,
        key=_name(spec.key),
        value=_name(spec.value),
        cached=bool(spec.cached),
        options=options,
        used=bool(everywhere) or any(spec.name in step.stores for step in plan.steps),
        everywhere=everywhere,
        one_shard=any(
            isinstance(node, SourceNode) and spec.source_topic in node.topics
            for node in map(topology.nodes.get, plan.one_shard)
        ),
    )


def _name(serde: Serde[Any] | None) -> str:
    """Name a serde of Penstock's own; of another one nothing is known without the program."""
    said = repr(serde)
    return said if said.startswith("Serdes.") else ""
