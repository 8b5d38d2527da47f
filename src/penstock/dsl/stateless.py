"""The verbs of a stream that look at one record at a time: filter, map, peek and their kin."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from penstock.dsl.async_values import call_spec, map_values_async
from penstock.dsl.checks import check_mapper
from penstock.dsl.graph import Graph, GraphNode, one, processor
from penstock.dsl.types import K2, V2
from penstock.operators.async_map import AsyncMapValues
from penstock.operators.base import Operator
from penstock.operators.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Map,
    MapValues,
    Peek,
    Print,
    SelectKey,
)
from penstock.serde import Serde
from penstock.strict import strict_options
from penstock.topology.functions import check_function

if TYPE_CHECKING:
    from penstock.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
AnySerde = Serde[Any] | None
Duration = timedelta | int


@strict_options
class StatelessVerbs(Generic[K, V]):
    """What a KStream holds, and its stateless half."""

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        name: str,
        key: AnySerde,
        value: AnySerde,
        sources: frozenset[str],
        rekeyed: bool = False,
    ) -> None:
        self._graph = graph
        self._node = node
        self._name = name
        self._key = key
        self._value = value
        self._sources = sources
        #: the key may have changed since the records were partitioned by it
        self._rekeyed = rekeyed
        self._repartition: GraphNode | None = None

    def filter(self, p: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
        """Keep the records for which ``p(key, value)`` is true.

        >>> stream.filter(lambda key, order: order["amount"] > 10)
        KStream(KSTREAM-FILTER-...)
        """
        check_function(p, "filter", "key", "value")
        return self._then(Filter(predicate=p), "FILTER", name)

    def filter_not(self, p: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
        """Drop the records for which ``p(key, value)`` is true.

        >>> stream.filter_not(lambda key, order: order["test"])
        KStream(KSTREAM-FILTER-...)
        """
        check_function(p, "filter_not", "key", "value")
        return self._then(Filter(predicate=p, negate=True), "FILTER", name)

    def select_key(self, f: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]:
        """Set a new key, ``f(key, value)``.

        >>> stream.select_key(lambda key, order: order["user"])
        KStream(KSTREAM-KEY-SELECT-...)
        """
        check_function(f, "select_key", "key", "value")
        return self._then(SelectKey(mapper=f), "KEY-SELECT", name, new_key=True)

    def map(self, f: Callable[[K, V], tuple[K2, V2]], *, name: str | None = None) -> KStream[K2, V2]:
        """Turn every record into ``f(key, value)``, a pair of key and value.

        >>> stream.map(lambda key, order: (order["user"], order["amount"]))
        KStream(KSTREAM-MAP-...)
        """
        check_function(f, "map", "key", "value")
        return self._then(Map(mapper=f), "MAP", name, new_key=True, new_value=True)

    @overload
    def map_values(self, f: Callable[[V], V2], *, name: str | None = None) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self, f: Callable[[K, V], V2], *, with_key: Literal[True], name: str | None = None
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(self, f: Callable[..., V2], *, with_key: bool, name: str | None = None) -> KStream[K, V2]: ...
    def map_values(self, f: Callable[..., Any], *, with_key: bool = False, name: str | None = None) -> KStream[K, Any]:
        """Turn every value into ``f(value)``, or ``f(key, value)`` with ``with_key``.

        >>> stream.map_values(lambda order: order["amount"])
        KStream(KSTREAM-MAPVALUES-...)
        """
        check_mapper(f, "map_values", with_key)
        return self._then(MapValues(mapper=f, with_key=with_key), "MAPVALUES", name, new_value=True)

    @overload
    def map_values_async(
        self, f: Callable[..., Awaitable[V2]], *, concurrency: int = 64, timeout: Duration | None = None,
        retries: int = 0, backoff: Duration = 100, with_key: bool = False, value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]: ...  # fmt: skip
    @overload
    def map_values_async(
        self, f: Callable[..., V2], *, concurrency: int = 64, timeout: Duration | None = None,
        retries: int = 0, backoff: Duration = 100, with_key: bool = False, value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]: ...  # fmt: skip
    def map_values_async(
        self, f: Callable[..., Any], *, concurrency: int = 64, timeout: Duration | None = None,
        retries: int = 0, backoff: Duration = 100, with_key: bool = False, value: AnySerde = None,
        name: str | None = None,
    ) -> KStream[K, Any]:  # fmt: skip
        """Turn every value into the answer of ``f(value)``, or ``f(key, value)``: a coroutine function, or one that blocks.

        Up to ``concurrency`` calls run at a time in each lane; those of a function that blocks run in threads. A record waits
        for its own call only, and all leave in their order. An attempt has ``timeout`` to answer; a call that fails is made
        again up to ``retries`` times, after ``backoff``, twice that, four times that …; then ``on_processing_error`` decides.
        An epoch may be run again, so ``f`` may be called again for a record: it must only read, or be idempotent.

        Answers go to the next step by ``value``, pickled unless it is given.

        >>> async def rate(order):
        ...     return {**order, "rate": 1.1}
        >>> stream.map_values_async(rate, concurrency=200, timeout=2_000, retries=3)
        KStream(KSTREAM-MAPVALUES-ASYNC-...)
        """
        call = call_spec(f, concurrency, timeout, retries, backoff, with_key)
        return map_values_async(self, AsyncMapValues(call, with_key), value, name)

    def flat_map(self, f: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = None) -> KStream[K2, V2]:
        """Turn every record into any number of pairs.

        >>> stream.flat_map(lambda key, order: [(item, 1) for item in order["items"]])
        KStream(KSTREAM-FLATMAP-...)
        """
        check_function(f, "flat_map", "key", "value")
        return self._then(FlatMap(mapper=f), "FLATMAP", name, new_key=True, new_value=True)

    @overload
    def flat_map_values(self, f: Callable[[V], Iterable[V2]], *, name: str | None = None) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self, f: Callable[[K, V], Iterable[V2]], *, with_key: Literal[True], name: str | None = None
    ) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self, f: Callable[..., Iterable[V2]], *, with_key: bool, name: str | None = None
    ) -> KStream[K, V2]: ...
    def flat_map_values(
        self, f: Callable[..., Iterable[Any]], *, with_key: bool = False, name: str | None = None
    ) -> KStream[K, Any]:
        """Turn every value into any number of values.

        >>> stream.flat_map_values(lambda order: order["items"])
        KStream(KSTREAM-FLATMAPVALUES-...)
        """
        check_mapper(f, "flat_map_values", with_key)
        return self._then(FlatMapValues(mapper=f, with_key=with_key), "FLATMAPVALUES", name, new_value=True)

    def foreach(self, f: Callable[[K, V], Any], *, name: str | None = None) -> None:
        """Call ``f(key, value)`` for every record; the stream ends here.

        >>> stream.foreach(lambda key, order: print(key))
        """
        check_function(f, "foreach", "key", "value")
        self._then(Foreach(action=f), "FOREACH", name)

    def peek(self, f: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
        """Call ``f(key, value)`` for every record and hand it on unchanged.

        >>> stream.peek(lambda key, order: print(key))
        KStream(KSTREAM-PEEK-...)
        """
        check_function(f, "peek", "key", "value")
        return self._then(Peek(action=f), "PEEK", name)

    def print(self, label: str | None = None, file: Any = None, *, name: str | None = None) -> None:
        """Print every record as ``[label]: key, value`` to standard output or a file; the stream ends here.

        >>> stream.print(label="orders")
        """
        self._then(Print(label=self._name if label is None else label, file=file), "PRINTER", name)

    def _then(
        self, operator: Operator, kind: str, name: str | None, *, new_key: bool = False, new_value: bool = False
    ) -> KStream[Any, Any]:
        """Add a node with one operator; serdes are kept where the type is."""
        named = self._graph.name(name, f"KSTREAM-{kind}-")
        # a node that changes both counts as changing the key, for the rewrites
        node = GraphNode(
            named, processor(one(operator)), key_changing=new_key, value_changing=new_value and not new_key
        )
        self._graph.add(node, self._node)
        return self._handle(
            node,
            key=None if new_key else self._key,
            value=None if new_value else self._value,
            rekeyed=new_key or self._rekeyed,
        )

    @abstractmethod
    def _handle(
        self, node: GraphNode, *, key: AnySerde, value: AnySerde, rekeyed: bool, sources: frozenset[str] | None = None
    ) -> KStream[Any, Any]:
        """Return the handle of a node below this one."""
