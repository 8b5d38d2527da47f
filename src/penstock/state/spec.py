"""Stores: what a user says about a store, as frozen data. ``state.open`` makes the typed store of a shard of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from typing import Any, TypeAlias

from penstock.durations import millis
from penstock.errors import TopologyError
from penstock.serde import Serde
from penstock.strict import strict_options

#: settings of a topic by name, as Kafka calls them
TopicConfig: TypeAlias = Mapping[str, str | int | float]


class StoreKind(Enum):
    """The kinds of store; each has its verbs, its key format and its changelog form."""

    KEY_VALUE = "key_value"
    WINDOW = "window"
    SESSION = "session"
    VERSIONED = "versioned"
    LRU = "lru"
    SHARED = "shared"
    TIMERS = "timers"
    BUFFER = "buffer"  # suppress and grace joins: time-ordered, in memory, logged
    OUTER_JOIN = "outer_join"  # unmatched rows of left and outer stream-stream joins


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """One store. Made by ``Stores.*``; the DSL fills in what the user left open (serdes, caching, retention).

    ``key`` and ``value`` None: taken from the operator that uses the store, else string and JSON.
    ``cached`` None: the DSL caches its table stores, a Processor API store is not cached (as in Kafka Streams).
    """

    name: str
    kind: StoreKind
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    persistent: bool = True
    logged: bool = True
    cached: bool | None = None
    timestamped: bool = False
    ttl: int | None = None
    retention: int | None = None  # window, session: milliseconds
    window_size: int | None = None  # window
    retain_duplicates: bool = False  # window
    time_ordered: bool = False  # window, session: keep an index by time, for emit on close
    history: int | None = None  # versioned: milliseconds
    segment_interval: int | None = None
    max_entries: int | None = None  # lru
    #: settings of the changelog topic, for the engine, which creates it
    topic_config: tuple[tuple[str, str], ...] = field(default=())
    #: changelog rows carry the headers of the record that wrote them, as join windows and subscriptions do in Kafka
    log_headers: bool = False
    #: a source topic that serves as the changelog (optimisation ``reuse_ktable_source_topics``, global tables)
    source_topic: str | None = None
    #: the program does not say ``persistent``: the setting ``default_store`` does (`topology/defaults.py`)
    kept_by_default: bool = field(default=True, compare=False, repr=False)

    def with_(self, **changes: Any) -> StoreSpec:
        """Return a copy with other options."""
        return replace(self, **changes)


def _check_name(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise TopologyError(f"a store needs a name (a non-empty string), but got {name!r}")
    return name


def _check_topic_config(name: str, logged: bool, settings: TopicConfig | None) -> tuple[tuple[str, str], ...]:
    if not settings:
        return ()
    if not isinstance(settings, Mapping) or not all(isinstance(setting, str) and setting for setting in settings):
        raise TopologyError(
            f"store {name!r}: topic_config= takes settings by name, e.g. {{'retention.ms': 86400000}}, but got {settings!r}"
        )
    if not logged:
        raise TopologyError(f"store {name!r} has logged=False and no changelog topic: leave topic_config= out")
    return tuple((setting, _setting_text(name, setting, value)) for setting, value in settings.items())


def _setting_text(name: str, setting: str, value: str | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise TopologyError(
            f"store {name!r}: {setting} in topic_config= must be a string or a number, but is {value!r}"
        )
    return str(value)


@strict_options
class Stores:
    """Factories of store specs.

    ``persistent``: on disk (True), or in memory (False); where it is not said, the setting ``default_store`` says it.

    >>> Stores.key_value("balances", ttl=timedelta(days=30)).ttl
    2592000000
    """

    @staticmethod
    def key_value(
        name: str,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        persistent: bool | None = None,
        logged: bool = True,
        cached: bool | None = None,
        timestamped: bool = False,
        ttl: timedelta | int | None = None,
        topic_config: TopicConfig | None = None,
    ) -> StoreSpec:
        """Hold one value per key.

        ``timestamped``: ``get`` gives ``ValueAndTimestamp``; ``ttl``: rows expire by event time.
        """
        return StoreSpec(
            _check_name(name),
            StoreKind.KEY_VALUE,
            key,
            value,
            persistent is not False,
            logged,
            cached,
            timestamped,
            None if ttl is None else millis(ttl, "ttl", least=1),
            topic_config=_check_topic_config(name, logged, topic_config),
            kept_by_default=persistent is None,
        )

    @staticmethod
    def window(
        name: str,
        retention: timedelta | int,
        size: timedelta | int,
        retain_duplicates: bool = False,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        persistent: bool | None = None,
        logged: bool = True,
        cached: bool | None = None,
        timestamped: bool = False,
        topic_config: TopicConfig | None = None,
    ) -> StoreSpec:
        """Hold one value (or several, ``retain_duplicates``) per key and window start."""
        retention_ms = millis(retention, "retention", least=0)
        size_ms = millis(size, "size", least=0)
        if retention_ms < size_ms:
            raise TopologyError(
                f"store {name!r}: retention ({retention_ms} ms) must be at least the window size ({size_ms} ms)"
            )
        return StoreSpec(
            _check_name(name),
            StoreKind.WINDOW,
            key,
            value,
            persistent is not False,
            logged,
            cached,
            timestamped,
            retention=retention_ms,
            window_size=size_ms,
            retain_duplicates=retain_duplicates,
            topic_config=_check_topic_config(name, logged, topic_config),
            kept_by_default=persistent is None,
        )

    @staticmethod
    def session(
        name: str,
        retention: timedelta | int,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        persistent: bool | None = None,
        logged: bool = True,
        cached: bool | None = None,
        topic_config: TopicConfig | None = None,
    ) -> StoreSpec:
        """Hold one value per key and session (start, end)."""
        return StoreSpec(
            _check_name(name),
            StoreKind.SESSION,
            key,
            value,
            persistent is not False,
            logged,
            cached,
            retention=millis(retention, "retention", least=0),
            topic_config=_check_topic_config(name, logged, topic_config),
            kept_by_default=persistent is None,
        )

    @staticmethod
    def versioned(
        name: str,
        history: timedelta | int,
        *,
        segment_interval: timedelta | int | None = None,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        persistent: bool | None = None,
        logged: bool = True,
        topic_config: TopicConfig | None = None,
    ) -> StoreSpec:
        """Hold every version of a key for ``history``; never cached."""
        return StoreSpec(
            _check_name(name),
            StoreKind.VERSIONED,
            key,
            value,
            persistent is not False,
            logged,
            False,
            history=millis(history, "history", least=0),
            segment_interval=None
            if segment_interval is None
            else millis(segment_interval, "segment_interval", least=1),
            topic_config=_check_topic_config(name, logged, topic_config),
            kept_by_default=persistent is None,
        )

    @staticmethod
    def lru(
        name: str,
        max_entries: int,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        persistent: bool = False,
        logged: bool = True,
        topic_config: TopicConfig | None = None,
    ) -> StoreSpec:
        """Hold at most ``max_entries`` rows a shard.

        The least recently used row goes first, and is deleted in the changelog.
        """
        if max_entries < 1:
            raise TopologyError(f"store {name!r}: max_entries must be at least 1, but is {max_entries}")
        return StoreSpec(
            _check_name(name),
            StoreKind.LRU,
            key,
            value,
            persistent,
            logged,
            False,
            max_entries=max_entries,
            topic_config=_check_topic_config(name, logged, topic_config),
        )

    @staticmethod
    def shared(
        name: str,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        persistent: bool | None = None,
        logged: bool = True,
        ttl: timedelta | int | None = None,
        topic_config: TopicConfig | None = None,
    ) -> StoreSpec:
        """Hold global state: processors that use it run in one lane, so any key may be read and written together."""
        kept = None if ttl is None else millis(ttl, "ttl", least=1)
        return StoreSpec(
            _check_name(name),
            StoreKind.SHARED,
            key,
            value,
            persistent is not False,
            logged,
            False,
            ttl=kept,
            topic_config=_check_topic_config(name, logged, topic_config),
            kept_by_default=persistent is None,
        )

    @staticmethod
    def timers(
        name: str,
        *,
        key: Serde[Any] | None = None,
        persistent: bool | None = None,
        logged: bool = True,
        topic_config: TopicConfig | None = None,
    ) -> StoreSpec:
        """Hold per-key timers of a processor; reached through ``context.timers``."""
        return StoreSpec(
            _check_name(name),
            StoreKind.TIMERS,
            key,
            None,
            persistent is not False,
            logged,
            False,
            topic_config=_check_topic_config(name, logged, topic_config),
            kept_by_default=persistent is None,
        )
