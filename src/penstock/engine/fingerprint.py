"""Whether a topology is the one that the application's state was made with.

The canonical topology is what its state depends on, as text: nodes, their names and how they are connected, topics, stores with
their formats, and the keys by which records change their shard. What a function does is not in it: it may be changed at will.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from typing import Any

from penstock.engine.record import EpochRecord, unpack
from penstock.errors import ConfigError, TopologyChanged
from penstock.serde import Serde
from penstock.state.spec import StoreSpec
from penstock.topology.describe import sink_label
from penstock.topology.node import SinkNode, SourceNode
from penstock.topology.topology import Topology

#: what the rows of a store, in its changelog or on disk, depend on, besides kind and serdes; not caching, nor settings of its topic
MATTERS = (
    "persistent",
    "logged",
    "timestamped",
    "ttl",
    "retention",
    "window_size",
    "retain_duplicates",
    "time_ordered",
    "history",
    "segment_interval",
    "max_entries",
    "log_headers",
    "source_topic",
)


def fingerprint(topology: Topology) -> str:
    """Return a short text that differs for topologies whose canonical texts differ."""
    return hashlib.sha256(canonical_topology(topology).encode()).hexdigest()


def canonical_topology(topology: Topology) -> str:
    """Return what the fingerprint covers, to be read and compared.

    >>> from penstock import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> _ = builder.stream("lines").group_by(lambda key, value: value).count(store="counts")
    >>> print(canonical_topology(builder.build()).partition("Stores:")[2].strip())
    counts: key_value, key Serdes.string, value Serdes.int64, persistent, logged, timestamped
    Repartition:
      counts-repartition: by Serdes.string
    """
    stores = [f"  {_store(topology.stores[name])}" for name in sorted(topology.stores)]
    sinks = sorted(
        f"  {node.topic}: by {_serde(node.key)}"
        for node in topology.nodes.values()
        if isinstance(node, SinkNode) and node.internal
    )
    return "\n".join([_structure(topology), "Stores:", *stores, "Repartition:", *sinks])


def difference(old: str, new: str) -> str:
    """Return the lines in which two canonical topologies differ, with a little of what is around them.

    >>> print(difference("a\\nb\\nc", "a\\nc"))
    --- before
    +++ now
    @@ -1,3 +1,2 @@
     a
    -b
     c
    """
    before, now = old.splitlines(), new.splitlines()
    return "\n".join(difflib.unified_diff(before, now, "before", "now", lineterm="", n=2))


def check_same(old: EpochRecord, topology: Topology, shards: int, *, allow_change: bool) -> bool:
    """Refuse to go on with another topology than that of the last epoch. Return whether it is the same.

    With ``allow_change`` another topology is let in (and False returned): stores of the same name go on with their rows, others
    begin empty. Never let in: another number of shards, because rows of a key would be looked for where they are not; a store of
    another kind under an old name, because its changelog holds rows of another form.
    """
    if old.shards != shards:
        raise ConfigError(
            f"shards={shards}, but {old.application_id!r} was first started with shards={old.shards}, and its state is cut into so "
            f"many. The number is fixed then: set shards={old.shards}, start under a new application_id, or forget what was done so "
            "far: `penstock reset`. (lanes may be changed at any restart)"
        )
    if old.fingerprint == fingerprint(topology):
        return True
    if not allow_change:
        raise TopologyChanged(
            f"the topology is not the one that {old.application_id!r} has run until epoch {old.epoch}:\n\n"
            f"{difference(unpack(old.topology), canonical_topology(topology))}\n\n"
            "To go on with it, keeping the rows of stores whose name and format are the same: --allow-topology-change. To begin "
            "anew: another application_id, or `penstock reset`. Names that Penstock made up count the nodes before them: give stores "
            "and nodes names of your own (store=, name=), and an edit elsewhere does not rename them"
        )
    _check_kinds(unpack(old.topology), canonical_topology(topology))
    return False


def _check_kinds(old: str, new: str) -> None:
    before, now = _kinds(old), _kinds(new)
    for store in before.keys() & now.keys():
        if before[store] != now[store]:
            raise TopologyChanged(
                f"store {store!r} was a {before[store]} store and is a {now[store]} store now: the rows in its changelog have another "
                "form. Give the new store another name, or begin anew: another application_id, or `penstock reset`"
            )


def _kinds(told: str) -> dict[str, str]:
    """Return the kind of every store of a canonical topology."""
    lines = told.partition("\nStores:\n")[2].partition("\nRepartition:")[0].splitlines()
    heads = (line.strip().partition(",")[0].rpartition(": ") for line in lines)
    return {name: kind for name, _, kind in heads}


def _structure(topology: Topology) -> str:
    """Return the description, without the names of functions and the times of schedules: no state depends on them."""
    text = topology.describe()
    for node in topology.nodes.values():
        if isinstance(node, SourceNode) and node.schedule is not None:
            text = text.replace(
                f"Source: {node.name} (schedule: {node.schedule.schedule})", f"Source: {node.name} (schedule)"
            )
        if isinstance(node, SinkNode) and node.topic is None:
            text = text.replace(
                f"Sink: {node.name} ({sink_label(node)})", f"Sink: {node.name} (topic: chosen by record)"
            )
    return text.rstrip()


def _store(spec: StoreSpec) -> str:
    parts = [f"{spec.name}: {spec.kind.value}", f"key {_serde(spec.key)}", f"value {_serde(spec.value)}"]
    for option in MATTERS:
        value = getattr(spec, option)
        if value is not None and value is not False:
            parts.append(option if value is True else f"{option} {value}")
    return ", ".join(parts)


def _serde(serde: Any) -> str:
    """Name a serde, the same in every process: without the addresses of objects."""
    said = repr(serde) if serde is None or isinstance(serde, Serde) else type(serde).__qualname__
    return re.sub(r" at 0x[0-9a-fA-F]+", "", said)
