"""Where an application begins to read: at the group's offsets, else where ``offset_reset`` of the source says."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from penstock.errors import TopicError
from penstock.log.base import Admin, Offsets, TopicPartition
from penstock.topology.node import SourceNode

logger = logging.getLogger("penstock.engine")


def reset_offsets(
    admin: Admin, group: str, partitions: Iterable[TopicPartition], source_of: Mapping[str, SourceNode], now: int
) -> Offsets:
    """Return where to begin in partitions for which the group has no offset. ``source_of``: topic → source."""
    by_reset: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        by_reset.setdefault(source_of[partition[0]].offset_reset or "earliest", []).append(partition)
    found: Offsets = {}
    for reset, these in by_reset.items():
        match reset.partition(":"):
            case "earliest", _, _:
                found |= admin.earliest_offsets(these)
            case "latest", _, _:
                found |= admin.stable_offsets(these)
            case "by_duration", _, ms:
                times = admin.offsets_for_times(dict.fromkeys(these, max(0, now - int(ms))))
                found |= admin.stable_offsets(these) | {at: time for at, time in times.items() if time is not None}
            case _:
                raise TopicError(
                    f"group {group!r} has no offsets of {named(these)}, and offset_reset='none' (source "
                    f"{source_of[these[0][0]].name!r}) forbids to choose: commit offsets for the group with a tool of Kafka's, "
                    "or say where to begin: offset_reset='earliest' or 'latest'"
                )
    return found


def warn_of_moved(group: str, barrier: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]) -> None:
    """Warn if the group's offsets were moved away from the barrier: then state and input do not belong together."""
    moved = [place for place, offset in committed.items() if barrier.get(place, offset) != offset]
    if moved:
        logger.warning(
            "group %r has other offsets than the last barrier, and they count: it goes on with %s. Another program has moved them, "
            "or a run at least once has ended before it committed them. The application's state is that of the barrier: records that "
            "are read again are counted again, records that are left out are missing. To begin anew: `penstock reset`; to go on at "
            "the barrier: set the offsets back with a tool of Kafka's while the application is stopped",
            group,
            ", ".join(
                f"{topic}-{part} at {committed[topic, part]}, not at {barrier[topic, part]}" for topic, part in moved
            ),
        )


def named(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as Kafka names them.

    >>> named([("orders", 0), ("orders", 1)])
    'orders-0, orders-1'
    """
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)
