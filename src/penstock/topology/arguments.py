"""What the methods of Topology and of the builder take, turned into what nodes and stores hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, TypeAlias

from penstock.durations import millis
from penstock.errors import TopologyError, nearest
from penstock.serde.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.state.spec import StoreKind, StoreSpec
from penstock.topology.functions import check_topic_extractor
from penstock.topology.names import check_name

#: "earliest", "latest", "none", or how far back to start
OffsetReset: TypeAlias = str | timedelta | None
#: a topic, several, or a compiled pattern
Topics: TypeAlias = str | Iterable[str] | re.Pattern[str]


def split_topics(topics: Topics) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    """Return the topics as names, or the pattern."""
    if isinstance(topics, re.Pattern):
        return (), topics
    if not isinstance(topics, Iterable):
        raise TopologyError(f"topics are a name, several names, or a compiled pattern, but got {topics!r}")
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not names:
        raise TopologyError("a source needs at least one topic")
    return tuple(check_name(name, "topic") for name in names), None


def split_destination(topic: str | Callable[..., str]) -> tuple[str | None, Callable[..., str] | None]:
    """Return where a sink writes: a topic, or the function that names it."""
    if callable(topic):
        return None, check_topic_extractor(topic)
    return check_name(topic, "topic"), None


def reset_text(reset: OffsetReset) -> str | None:
    """Return an offset reset as text; a duration becomes ``by_duration:<milliseconds>``.

    >>> reset_text(timedelta(hours=1))
    'by_duration:3600000'
    """
    if isinstance(reset, timedelta):
        return f"by_duration:{millis(reset, 'offset_reset', least=0)}"
    if reset is None or reset in ("earliest", "latest", "none"):
        return reset
    choices = ("earliest", "latest", "none")
    raise TopologyError(
        f"offset_reset must be one of {choices} or a timedelta, but is {reset!r}{nearest(str(reset), choices)}"
    )


def supplied_stores(supplier: Any) -> tuple[StoreSpec, ...]:
    """Return the stores that a processor supplier brings along."""
    stores = getattr(supplier, "stores", None)
    if callable(stores):
        stores = stores()
    return tuple(stores or ())


def completed(spec: StoreSpec) -> StoreSpec:
    """Fill in what is left open: the default serdes, not cached."""
    value = None if spec.kind is StoreKind.TIMERS else spec.value or DEFAULT_VALUE
    return spec.with_(key=spec.key or DEFAULT_KEY, value=value, cached=bool(spec.cached))


def check_no_topic_config(spec: StoreSpec) -> None:
    """Refuse settings of a changelog topic for a store whose changelog is a topic of the user's."""
    if spec.topic_config:
        raise TopologyError(
            f"store {spec.name!r} is kept in step with a topic of yours and has no changelog topic: leave topic_config= out"
        )


def split_stores(
    stores: str | StoreSpec | Iterable[str | StoreSpec],
) -> tuple[tuple[str, ...], tuple[StoreSpec, ...]]:
    """Return the stores that are named, and those that are to be added."""
    given = (stores,) if isinstance(stores, str | StoreSpec) else tuple(stores)
    for store in given:
        if not isinstance(store, str | StoreSpec):
            raise TopologyError(f"stores= takes names and specs (Stores.key_value(...)), but got {store!r}")
    return tuple(s for s in given if isinstance(s, str)), tuple(s for s in given if isinstance(s, StoreSpec))
