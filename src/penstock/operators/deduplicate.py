"""Deduplicate: let the first record of an id pass, drop those that repeat it within a time. Ours, after KIP-655."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.operators.base import Forward, Operator, OperatorContext
from penstock.record import Headers
from penstock.serde import Serde, Serdes
from penstock.serde.foreign_key import CombinedKey, CombinedKeySerde
from penstock.state.spec import StoreKind, StoreSpec


def deduplicate_store(name: str, key: Serde[Any], within: int, *, id_serde: Serde[Any] = Serdes.json) -> StoreSpec:
    """Return the spec of a `Deduplicate`'s store: the ids that were let pass, by the stream time of that moment."""
    return StoreSpec(
        name,
        StoreKind.WINDOW,
        CombinedKeySerde(key, id_serde),
        Serdes.int64,
        cached=False,
        retention=2 * within + 1,
        window_size=within,
        retain_duplicates=True,
    )


@dataclass(frozen=True, slots=True)
class Deduplicate(Operator):
    """Let a record pass if no record with its key and its id ``by(key, value)`` was let pass within ``within``
    milliseconds.

    All is event time, in the order in which a key's records arrive:

    - A record is a duplicate if some record of the same key and id that was let pass has a timestamp at most ``within``
    away
      from its own, before or after. Duplicates are dropped and counted (``duplicate``); they do not prolong anything,
      so a source that repeats an id for ever is let pass once in every ``within``.
    - An id is remembered until stream time is 2 × ``within`` past the moment at which it was let pass. So the rule is
    exact
      for every record that is at most ``within`` late. A later one is never dropped for being late: it passes unless a
      duplicate of it is still remembered.
    - A record without a key is dropped and counted (``null_key``): there is no lane that would see all of them. A
    record
      without an id (``by`` gives None) passes, and is not remembered.

    ``store`` is made by `deduplicate_store`.
    """

    timed: ClassVar[bool] = True

    calls: ClassVar[tuple[str, ...]] = ("by",)

    store: str
    by: Callable[[Any, Any], Any]
    within: int

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        store, drop, clock = context.store(self.store), context.drop, context.event_time()
        fetch, add, by, within, memory = store.fetch_list, store.add, self.by, self.within, 2 * self.within

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop("null_key")
                return
            now = clock.now
            identity = by(key, value)
            if identity is not None:
                both = CombinedKey(key, identity)
                since = now - memory
                for _, passed in fetch(both, since if since > 0 else 0, now):
                    if -within <= timestamp - passed <= within:
                        drop("duplicate")
                        return
                add(both, timestamp, now)
            forward(key, value, timestamp, headers)

        return on_record
