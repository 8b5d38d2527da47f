"""The check that every store and topic of a program has a name of the user's own.

A generated name has a number that depends on what stands before it in the program; when that changes, the application looks for
its state and its records under another name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from penstock.errors import TopologyError
from penstock.state.spec import StoreKind, StoreSpec

if TYPE_CHECKING:
    from penstock.topology.topology import Topology

#: what is made from the name of a node or a store
_DERIVED = re.compile(r"(.+-[0-9]{10})(-store|-Buffer|-repartition|-topic)?")


def check_explicit(topology: Topology, generated: Set[str]) -> None:
    """Raise if a store, a changelog topic or a repartition topic of the topology is called by one of the generated names."""
    unnamed = [*_stores(topology, generated), *_topics(topology, generated)]
    if unnamed:
        raise TopologyError(
            "explicit_names=True, but these names were generated and may change with the program:\n  "
            + "\n  ".join(unnamed)
        )


def _stores(topology: Topology, generated: Set[str]) -> Iterator[str]:
    for name, spec in topology.stores.items():
        if _is_generated(name, generated):
            changelog = f" and its changelog topic {name}-changelog" if spec.logged else ""
            yield f"store {name}{changelog}: {_remedy(spec)}"


def _topics(topology: Topology, generated: Set[str]) -> Iterator[str]:
    for name in topology.internal_topics:
        if _is_generated(name, generated):
            yield f"repartition topic {name}: give name= to the join, repartition(), to_table() or group_by() it is made for"


def _is_generated(name: str, generated: Set[str]) -> bool:
    found = _DERIVED.fullmatch(name)
    return found is not None and found[1] in generated


def _remedy(spec: StoreSpec) -> str:
    if spec.kind is StoreKind.BUFFER:
        return "give name= to suppress(), or to the join with grace="
    if "FK-JOIN-SUBSCRIPTION" in spec.name:
        return "give name= to the foreign-key join"
    return "give store= to the table, aggregation or join it is made for"
