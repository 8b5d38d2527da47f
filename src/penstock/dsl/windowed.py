"""WindowedKStream: records grouped by key and window. Results are tables keyed by ``Windowed(key, start, end)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.dsl.aggregation import GroupedInput, aggregated
from penstock.dsl.graph import Graph
from penstock.dsl.ktable import AnySerde, KTable, StoreOption
from penstock.dsl.stores import AnyWindows, Materialized, window_store, windowed_key
from penstock.dsl.types import R
from penstock.errors import TopologyError
from penstock.operators.base import Operator
from penstock.operators.emit import EmitStrategy
from penstock.operators.folds import MergeReduced, Reduce, add_counts, count_one, none_init, zero
from penstock.operators.session import SessionWindowAggregate
from penstock.operators.sliding import SlidingWindowAggregate
from penstock.operators.windowed import WindowAggregate
from penstock.record import Windowed
from penstock.serde import Serdes
from penstock.strict import strict_options
from penstock.topology.functions import check_function
from penstock.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

K = TypeVar("K")
V = TypeVar("V")


@strict_options
class WindowedKStream(Generic[K, V]):
    """Records grouped by key and window.

    >>> from penstock import StreamsBuilder, TimeWindows
    >>> clicks = StreamsBuilder().stream("clicks").group_by_key()
    >>> clicks.windowed_by(TimeWindows(60_000)).count(store="clicks-per-minute").queryable_store_name
    'clicks-per-minute'
    """

    def __init__(
        self,
        graph: Graph,
        grouped: GroupedInput,
        windows: AnyWindows,
        emit: EmitStrategy = EmitStrategy.on_window_update,
    ) -> None:
        self._graph = graph
        self._grouped = grouped
        self._windows = windows
        self._emit = emit

    def emit(self, strategy: EmitStrategy) -> WindowedKStream[K, V]:
        """Choose when results leave: at every update, or once, when the window closes.

        >>> windowed.emit(EmitStrategy.on_window_close).count()
        KTable(KSTREAM-AGGREGATE-...)
        """
        if not isinstance(strategy, EmitStrategy):
            raise TopologyError(f"emit() takes EmitStrategy.on_window_update or .on_window_close, but got {strategy!r}")
        if strategy is EmitStrategy.on_window_close:
            _check_closing(self._windows)
        return WindowedKStream(self._graph, self._grouped, self._windows, strategy)

    def count(self, *, store: StoreOption = None, name: str | None = None, key: AnySerde = None,
              value: AnySerde = None) -> KTable[Windowed, int]:  # fmt: skip
        """Count the records per key and window.

        >>> windowed.count(store="orders-per-minute")
        KTable(KSTREAM-AGGREGATE-...)
        """
        serdes_only = store is None and (key is not None or value is not None)
        if serdes_only and not isinstance(self._windows, SlidingWindows):
            self._graph.new_store("KSTREAM-AGGREGATE-")  # a number that Kafka uses up, too
        kept = self._store(store, "KSTREAM-AGGREGATE-", (key, value), Serdes.int64)
        return self._aggregated(kept, name, "KSTREAM-AGGREGATE-", zero, count_one, add_counts)

    def reduce(self, f: Callable[[V, V], V], *, store: StoreOption = None, name: str | None = None,
               key: AnySerde = None, value: AnySerde = None) -> KTable[Windowed, V]:  # fmt: skip
        """Combine the values per key and window with ``f(aggregate, value)``.

        >>> windowed.reduce(lambda first, order: order)
        KTable(KSTREAM-REDUCE-...)
        """
        check_function(f, "reduce", "aggregate", "value")
        kept = self._store(store, "KSTREAM-REDUCE-", (key, value), self._grouped.serdes[1])
        fold, merge = Reduce(reducer=f), MergeReduced(reducer=f)
        return self._aggregated(kept, name, "KSTREAM-REDUCE-", none_init, fold, merge)

    def aggregate(self, init: Callable[[], Any], f: Callable[[K, V, Any], R],
                  merger: Callable[[K, Any, Any], Any] | None = None, *, store: StoreOption = None,
                  name: str | None = None, key: AnySerde = None, value: AnySerde = None) -> KTable[Windowed, R]:  # fmt: skip
        """Fold the values per key and window with ``f(key, value, aggregate)``.

        Session windows also need ``merger(key, one, other)``, which combines two sessions that grow together.

        >>> windowed.aggregate(lambda: 0, lambda key, order, total: total + order["amount"])
        KTable(KSTREAM-AGGREGATE-...)
        """
        check_function(init, "aggregate")
        check_function(f, "aggregate", "key", "value", "aggregate")
        check_merger(self._windows, merger)
        kept = self._store(store, "KSTREAM-AGGREGATE-", (key, value), None)
        return self._aggregated(kept, name, "KSTREAM-AGGREGATE-", init, f, merger)

    def _store(self, store: StoreOption, prefix: str, given: Any, value: AnySerde) -> Materialized:
        upstream = (self._grouped.serdes[0], value)
        return window_store(self._graph, store, prefix, self._windows, self._emit, given, upstream)

    def _aggregated(self, kept: Materialized, name: str | None, prefix: str, initializer: Any, aggregator: Any,
                    merger: Any) -> KTable[Windowed, Any]:  # fmt: skip
        named = self._graph.name(name, prefix)
        return aggregated(
            self._grouped,
            named,
            kept,
            lambda store, old: window_operator(store, self._windows, initializer, aggregator, merger, self._emit, old),
            key=windowed_key(self._windows, kept.spec.key),
            grace=closing_grace(self._windows),
        )


def window_operator(
    store: str,
    windows: AnyWindows,
    initializer: Callable[[], Any],
    aggregator: Callable[..., Any],
    merger: Any,
    emit: EmitStrategy,
    send_old: bool,
) -> Operator:
    """Return the aggregation that fits the kind of window."""
    if isinstance(windows, SessionWindows):
        return SessionWindowAggregate(
            store=store,
            windows=windows,
            initializer=initializer,
            aggregator=aggregator,
            merger=merger,
            emit=emit,
            send_old=send_old,
        )
    if isinstance(windows, SlidingWindows):
        return SlidingWindowAggregate(
            store=store, windows=windows, initializer=initializer, aggregator=aggregator, emit=emit, send_old=send_old
        )
    return WindowAggregate(
        store=store, windows=windows, initializer=initializer, aggregator=aggregator, emit=emit, send_old=send_old
    )


def closing_grace(windows: AnyWindows) -> int:
    """Return how long after its end a window can still change: a session also waits for its gap."""
    return windows.grace + windows.gap if isinstance(windows, SessionWindows) else windows.grace


def check_windows(windows: Any) -> AnyWindows:
    """Return windows that can be aggregated by."""
    if isinstance(windows, TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows):
        return windows
    if isinstance(windows, Windows):
        return _check_own(windows)
    raise TopologyError(
        f"windowed_by() takes TimeWindows, SlidingWindows, SessionWindows, UnlimitedWindows or a subclass of Windows, but got "
        f"{windows!r}"
    )


def _check_own(windows: Windows) -> Windows:
    for name, least in (("size", 1), ("grace", 0)):
        value = getattr(windows, name)
        if not isinstance(value, int) or value < least:
            raise TopologyError(
                f"{type(windows).__name__}.{name} must be at least {least} (milliseconds), but is {value!r}"
            )
    check_function(windows.starts_for, "windowed_by", "timestamp")
    return windows


def _check_closing(windows: AnyWindows) -> None:
    if isinstance(windows, UnlimitedWindows):
        raise TopologyError("UnlimitedWindows never close: use EmitStrategy.on_window_update, or TimeWindows")
    if not isinstance(windows, TimeWindows | SlidingWindows | SessionWindows):
        raise TopologyError(
            f"{type(windows).__name__} cannot emit on close, only the built-in windows can: leave emit() out, or add "
            f"suppress(Suppressed.until_window_closes())"
        )


def check_merger(windows: AnyWindows, merger: Any) -> None:
    """Check that session windows, and no others, have a merger."""
    if isinstance(windows, SessionWindows):
        if merger is None:
            raise TopologyError("sessions can grow together: give aggregate() a merger=f(key, one, other)")
        check_function(merger, "aggregate", "key", "one", "other")
    elif merger is not None:
        raise TopologyError(f"only session windows have a merger, not {type(windows).__name__}: leave it out")
