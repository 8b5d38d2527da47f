"""Names and settings of the topics that an application has for itself, and what is checked of one that exists.

    <application>-<store>-changelog   the rows of a store: one partition per shard
    <application>-epochs              the record of each epoch: one partition

Windowed rows end by time (``compact,delete``), but by that of their store, which the application sees to (`engine/changelog_expiry.py`); a
broker would go by its own clock and delete what is still needed of history. Versions of a row are not compacted away while they can
be asked for; a segment ends by its size, because one that ends by the time of its records may hold nothing but old ones, to which
the lag does not apply. All else is as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.errors import TopicError
from penstock.log.base import TopicSpec

DAY_MS = 24 * 60 * 60 * 1000
#: of a versioned store: what is not compacted yet is at least this much
SEGMENT_BYTES = 64 << 20
_LONGEST = 2**63 - 1
_INTERNAL = {"message.timestamp.type": "CreateTime"}


def changelog_name(application_id: str, store: str) -> str:
    """Return the name of the topic that holds a store's rows.

    >>> changelog_name("shop", "counts")
    'shop-counts-changelog'
    """
    return f"{application_id}-{store}-changelog"


def changelog_topic(
    application_id: str,
    store: str,
    *,
    shards: int,
    windowed: bool = False,
    history_ms: int | None = None,
    configs: Iterable[tuple[str, str]] = (),
    replication: int = -1,
) -> TopicSpec:
    """Describe how the changelog of a store must be. ``windowed``: windows and sessions; ``history_ms``: versioned stores.

    >>> dict(changelog_topic("shop", "counts", shards=4).configs)["cleanup.policy"]
    'compact'
    >>> changelog_topic("shop", "hourly", shards=4, windowed=True).configs["retention.ms"]
    '-1'
    """
    settings = dict(_INTERNAL)
    settings["cleanup.policy"] = "compact,delete" if windowed else "compact"
    if windowed:
        settings["retention.ms"] = "-1"
    if history_ms is not None:
        settings["min.compaction.lag.ms"] = str(min(history_ms + DAY_MS, _LONGEST))
        settings["segment.ms"], settings["segment.bytes"] = str(_LONGEST), str(SEGMENT_BYTES)
    settings.update(configs)
    return TopicSpec(changelog_name(application_id, store), shards, settings, replication)


def epochs_name(application_id: str) -> str:
    """Return the name of the topic of epoch records."""
    return f"{application_id}-epochs"


def epochs_topic(application_id: str, *, replication: int = -1) -> TopicSpec:
    """Describe how the topic of epoch records must be.

    >>> epochs_topic("shop").name, epochs_topic("shop").partitions
    ('shop-epochs', 1)
    """
    return TopicSpec(epochs_name(application_id), 1, {**_INTERNAL, "cleanup.policy": "compact"}, replication)


def _same_words(found: str, wanted: str) -> bool:
    return {word.strip() for word in found.split(",")} == {word.strip() for word in wanted.split(",")}


def _at_least(found: str, wanted: str) -> bool:
    """Whether a number of milliseconds is large enough; -1 is without end."""
    return int(found) == -1 or (int(wanted) != -1 and int(found) >= int(wanted))


#: settings on which correctness rests; any other is a wish, heard when the topic is made
CHECKS: dict[str, Callable[[str, str], bool]] = {
    "cleanup.policy": _same_words,
    "retention.ms": _at_least,
    "min.compaction.lag.ms": _at_least,
    "segment.ms": _at_least,
    "message.timestamp.type": _same_words,
}


def check_partitions(spec: TopicSpec, partitions: int) -> None:
    """Raise ``TopicError`` if an existing topic has another number of partitions than it must have."""
    if spec.partitions not in (-1, partitions):
        raise TopicError(
            f"topic {spec.name!r} has {partitions} partitions, but must have {spec.partitions}. Partitions of a topic that "
            "holds state cannot be changed: go back to the earlier setting, or delete the topic (`penstock topics delete`) "
            "to build it anew"
        )


def check_configs(spec: TopicSpec, found: Mapping[str, str]) -> None:
    """Raise ``TopicError`` if a setting of an existing topic, on which correctness rests, is not as it must be."""
    wrong = [
        (name, found.get(name, ""), wanted)
        for name, wanted in spec.configs.items()
        if name in CHECKS and not CHECKS[name](found.get(name) or "0", wanted)
    ]
    if wrong:
        said = "; ".join(f"{name} is {has!r}, but must be {wanted!r}" for name, has, wanted in wrong)
        change = " ".join(f"--config {name}={wanted}" for name, _, wanted in wrong)
        raise TopicError(f"topic {spec.name!r}: {said}. Change it: penstock topics alter {spec.name} {change}")
