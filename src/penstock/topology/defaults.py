"""What a program leaves open of its sources, sinks and stores: the settings ``default_...`` say it.

A builder makes a topology before there is an application. What it leaves open stands in the topology as such (a
`DefaultSerde`, a source without an extractor, a store that is ``kept_by_default``), and gets its value when an `App`
or the test driver takes it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from penstock.config import setting
from penstock.errors import ConfigError, TopologyError
from penstock.extractors import TimestampExtractor, fail_on_invalid
from penstock.serde import Serde, Serdes
from penstock.serde.defaults import DefaultSerde, replaced
from penstock.setting_checks import EXTRACTORS, IN_MEMORY, SERDES
from penstock.state.spec import StoreKind, StoreSpec
from penstock.topology.functions import check_extractor
from penstock.topology.node import SourceNode
from penstock.topology.schemas import bind_schemas
from penstock.topology.serde_change import SerdeChange
from penstock.topology.topology import Topology

#: kinds of stores that can be on disk or in memory, as a program chooses
CHOSEN = (
    StoreKind.KEY_VALUE,
    StoreKind.WINDOW,
    StoreKind.SESSION,
    StoreKind.VERSIONED,
    StoreKind.SHARED,
    StoreKind.TIMERS,
    StoreKind.OUTER_JOIN,
)


class Defaults(NamedTuple):
    """What the settings say where a program does not. ``timestamp`` None: that of the record, if it is not negative."""

    key: Serde[Any]
    value: Serde[Any]
    timestamp: Callable[..., int] | None
    in_memory: bool

    def serde(self, serde: Any) -> Any:
        """Return a serde without what was left open of it.

        >>> from penstock.serde.defaults import DEFAULT_KEY
        >>> defaults_of({"default_key_serde": "int64"}).serde(Serdes.windowed(DEFAULT_KEY, 5))
        Serdes.windowed(Serdes.int64, 5)
        """
        parts = {"key": self.key, "value": self.value}
        return replaced(serde, lambda one: parts[one.part] if isinstance(one, DefaultSerde) else None)


def defaults_of(config: Mapping[str, Any]) -> Defaults:
    """Return what settings say; raise `ConfigError` for a name that leads nowhere.

    >>> defaults_of({"default_value_serde": "int46:serde"})
    Traceback (most recent call last):
    penstock.errors.ConfigError: default_value_serde='int46:serde': there is no module 'int46' to be imported from here
    """

    def given(name: str) -> Any:
        return config.get(name, setting(name).default)

    return Defaults(
        _serde("default_key_serde", given("default_key_serde")),
        _serde("default_value_serde", given("default_value_serde")),
        _extractor("default_timestamp_extractor", given("default_timestamp_extractor")),
        given("default_store") == IN_MEMORY,
    )


def bound_topology(topology: Topology, application_id: str, config: Mapping[str, Any]) -> Topology:
    """Return a topology as an application runs it: with nothing left open, and serdes that know their topics."""
    defaults = defaults_of(config)
    if defaults.timestamp is not None:
        _check_reused(topology)
    complete = _Completion(defaults, topology).topology(topology)
    return bind_schemas(complete, application_id, config.get("registry"))


class _Completion(SerdeChange):
    """Fills in what a topology leaves open."""

    def __init__(self, defaults: Defaults, topology: Topology) -> None:
        super().__init__()
        self._defaults = defaults
        self._global = topology.global_stores

    def serde(self, serde: Any, topic: str | None, part: str) -> Any:
        """Return the serde that the settings say, where it was left open."""
        return self._defaults.serde(serde)

    def source(self, node: SourceNode) -> SourceNode:
        """Return a source with an extractor, if the settings have one and it has none."""
        made = super().source(node)
        if node.timestamp is not None or node.internal or node.schedule is not None:
            return made
        return replace(made, timestamp=self._defaults.timestamp)

    def store(self, spec: StoreSpec) -> StoreSpec:
        """Return a store on disk or in memory; global ones are on disk."""
        made = super().store(spec)
        chosen = spec.kept_by_default and spec.kind in CHOSEN and spec.name not in self._global
        return made.with_(persistent=False) if chosen and self._defaults.in_memory else made


def _check_reused(topology: Topology) -> None:
    """Refuse a table whose topic is its changelog too: what is restored from that would have another time."""
    silent = {
        topic: node.name
        for node in topology.nodes.values()
        if isinstance(node, SourceNode) and node.timestamp is None
        for topic in node.topics
    }
    for spec in topology.stores.values():
        if spec.source_topic in silent and spec.name not in topology.global_stores:
            raise ConfigError(
                f"default_timestamp_extractor: the topic of source {silent[spec.source_topic]!r} is also the changelog "
                f"of store {spec.name!r}, whose rows have the times of their records. Give this source a timestamp= of "
                "its own (TimestampExtractor.fail_on_invalid: that of the record), or leave the optimisation "
                "reuse_ktable_source_topics out"
            )


def _serde(name: str, given: Any) -> Serde[Any]:
    """Return a serde that a setting names, or is."""
    if given in SERDES:
        found: Any = getattr(Serdes, given)
    else:
        found = _imported(name, given) if isinstance(given, str) else given
    if not isinstance(found, Serde) or isinstance(found, DefaultSerde):
        raise ConfigError(f"{name}={given!r} is {found!r}, which is no serde: name one of Serdes, or give a Serde")
    return found


def _extractor(name: str, given: Any) -> Callable[..., int] | None:
    """Return an extractor that a setting names, or is; None for what a source does without one."""
    if given in EXTRACTORS:
        found: Any = getattr(TimestampExtractor, given)
    else:
        found = _imported(name, given) if isinstance(given, str) else given
    try:
        return None if found is fail_on_invalid else check_extractor(found)
    except TopologyError as error:
        raise ConfigError(f"{name}: {error}") from error


def _imported(name: str, text: str) -> Any:
    """Return what ``module:name`` is."""
    module, _, attribute = text.partition(":")
    try:
        return attrgetter(attribute)(importlib.import_module(module))
    except ModuleNotFoundError as error:
        raise ConfigError(f"{name}={text!r}: there is no module {error.name!r} to be imported from here") from error
    except AttributeError as error:
        raise ConfigError(f"{name}={text!r}: {error}") from error
