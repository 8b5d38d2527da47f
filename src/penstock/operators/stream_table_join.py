"""Stream-table joins: each record is joined with the table's row, the current one or that valid at the record's time.

Only the stream's records give results, with their own timestamp and headers. A versioned table is read as of the
record's timestamp; any other table, and a global one, as it is at the moment.

Null rules (KIP-962): a record without a value is dropped; one without a (selected) key is dropped by an inner join and
joined with None by a left join.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from penstock.errors import TopologyError
from penstock.operators.base import Forward, Operator, OperatorContext, TableView
from penstock.operators.stream_join import keyed_joiner
from penstock.record import Headers

#: (key, as of) -> (value, timestamp) or None
LookupAsOf: TypeAlias = Callable[[Any, int], "tuple[Any, int] | None"]


@dataclass(frozen=True, slots=True)
class StreamTableJoin(Operator):
    """Join a stream with a table by key (KSTREAM-JOIN, KSTREAM-LEFTJOIN).

    ``joiner(value, row)``, or ``(key, value, row)`` with ``with_key``. A versioned table is read as of the record's
    timestamp. With ``grace``, a record waits in ``buffer`` until time has passed its timestamp by that many
    milliseconds, so that late table updates reach it; one that is already older is joined at once.

    A difference from Kafka Streams: with ``left`` and ``grace`` a record without a key is joined with None at once
    (Kafka fails in its buffer, though without grace it does the same).
    """

    calls: ClassVar[tuple[str, ...]] = ("joiner",)

    table: TableView
    joiner: Callable[..., Any]
    with_key: bool = False
    left: bool = False
    grace: int | None = None
    buffer: str | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        join = self._open_join(context, forward)
        return join if self.grace is None else self._open_buffered(context, join, self.grace)

    def _open_join(self, context: OperatorContext, forward: Forward) -> Forward:
        as_of = self.table.open_as_of(context)
        if as_of is not None:
            return self._open_as_of(context, forward, as_of)
        lookup, drop = self.table.open(context), context.drop
        join, left = keyed_joiner(self.joiner, self.with_key), self.left

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if value is None or (key is None and not left):
                drop("null_value" if value is None else "null_key")
                return
            row = None if key is None else lookup(key)
            if row is not None:
                forward(key, join(key, value, row[0]), timestamp, headers)
            elif left:
                forward(key, join(key, value, None), timestamp, headers)

        return on_record

    def _open_as_of(self, context: OperatorContext, forward: Forward, lookup: LookupAsOf) -> Forward:
        join, left, drop = keyed_joiner(self.joiner, self.with_key), self.left, context.drop

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if value is None or (key is None and not left):
                drop("null_value" if value is None else "null_key")
                return
            row = None if key is None else lookup(key, timestamp)
            if row is not None:
                forward(key, join(key, value, row[0]), timestamp, headers)
            elif left:
                forward(key, join(key, value, None), timestamp, headers)

        return on_record

    def _open_buffered(self, context: OperatorContext, join: Forward, grace: int) -> Forward:
        """Put every record that is not too old into the buffer, then join what the time has released, oldest first."""
        if self.table.open_as_of(context) is None:
            raise TopologyError(
                "a stream-table join with grace needs a versioned table: give it a store made by Stores.versioned(...)"
            )
        if self.buffer is None:
            raise TopologyError("a stream-table join with grace needs a buffer")
        buffer, clock = context.store(self.buffer), context.event_time()
        put, release = buffer.put, buffer.release

        def join_released(until: int, at_hand: bytes | None = None) -> None:
            origin, taken = context.origin, 0
            released = release(until)
            try:
                for raw_key, came_from, *record in released:
                    taken += 1
                    if raw_key == at_hand:  # it goes on at once
                        join(*record)
                        continue
                    context.release(record[2] + grace, raw_key)
                    context.origin = came_from
                    try:
                        join(*record)
                    finally:
                        context.released()
            except Exception:
                # the one at hand is for the policy to decide, the others still wait
                for _, came_from, *record in released[taken:]:
                    context.origin = came_from
                    put(*record)
                raise
            finally:
                context.origin = origin

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None or clock.now - grace > timestamp:
                join(key, value, timestamp, headers)
                return
            join_released(clock.now - grace, put(key, value, timestamp, headers))

        def due() -> int | None:
            earliest: int | None = buffer.earliest()
            return None if earliest is None else earliest + grace

        context.on_time(lambda now: join_released(now - grace), due)
        return on_record

    @property
    def releases(self) -> bool:
        """With a grace: records wait in a buffer."""
        return self.grace is not None

    def delay(self, span: int) -> int:
        """A record waits for late rows of the table."""
        return self.grace or 0


@dataclass(frozen=True, slots=True)
class StreamGlobalTableJoin(Operator):
    """Join a stream with a global table by the key that ``select(key, value)`` gives.

    The joiner's key, with ``with_key``, is the stream's.
    """

    calls: ClassVar[tuple[str, ...]] = ("select", "joiner")

    store: str
    select: Callable[..., Any]
    joiner: Callable[..., Any]
    with_key: bool = False
    left: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        lookup, drop, select = context.store(self.store).read, context.drop, self.select
        join, left = keyed_joiner(self.joiner, self.with_key), self.left

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            selected = select(key, value)
            if value is None or (selected is None and not left):
                drop("null_value" if value is None else "null_key")
                return
            row = None if selected is None else lookup(selected)
            if row is not None:
                forward(key, join(key, value, row[0]), timestamp, headers)
            elif left:
                forward(key, join(key, value, None), timestamp, headers)

        return on_record
