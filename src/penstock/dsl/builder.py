"""StreamsBuilder: where a program begins. Streams and tables are read from topics here, and the topology is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from penstock.dsl.explicit import check_explicit
from penstock.dsl.graph import Graph, GraphNode, processor
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import GlobalKTable, KTable, StoreOption
from penstock.dsl.optimize import rewrite
from penstock.dsl.stores import table_store
from penstock.dsl.tables import SourceTable
from penstock.dsl.types import SourceK, SourceV
from penstock.errors import TopologyError
from penstock.operators.base import Operator
from penstock.operators.process import Process
from penstock.operators.scheduled import Scheduled
from penstock.operators.table import TableSource
from penstock.operators.table_source import PunctualTableSource
from penstock.processor.emitter import EmitterContext
from penstock.schedule import as_schedule
from penstock.serde import Serde
from penstock.serde.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.state.spec import StoreKind, StoreSpec
from penstock.strict import strict_options
from penstock.topology.arguments import OffsetReset, Topics, check_no_topic_config, reset_text, split_topics
from penstock.topology.functions import check_extractor, check_function, check_late, check_watermark, check_wrapper
from penstock.topology.names import check_name
from penstock.topology.node import GlobalStore, ProcessorNode, SourceNode, TimestampExtractor, Wrapper
from penstock.topology.topology import Topology
from penstock.watermark import LatePolicy, WatermarkStrategy

STREAM_SOURCE, TABLE_SOURCE, SCHEDULED_SOURCE = "KSTREAM-SOURCE-", "KTABLE-SOURCE-", "KSTREAM-SCHEDULED-"


@strict_options
class StreamsBuilder:
    """Says where records come from; ``build()`` gives the topology.

    >>> from penstock import Serdes, StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> words = builder.stream("lines", value=Serdes.string).flat_map_values(str.split)
    >>> counts = words.group_by(lambda _, word: word).count(store="counts")
    >>> counts.to_stream().to("word-counts")
    >>> len(builder.build().subtopologies())
    2

    ``wrapper(node, process)`` is called with each processor node as a task opens it, the DSL's own too, and returns what runs
    instead of ``process(key, value, timestamp, headers)``.

    ``explicit_names=True``: ``build()`` fails if a store or a topic of the application has a generated name.
    """

    def __init__(self, *, wrapper: Wrapper | None = None, explicit_names: bool = False) -> None:
        self._graph = Graph()
        self._explicit_names = explicit_names
        self._wrapper = check_wrapper(wrapper)

    def stream(
        self,
        topics: Topics,
        *,
        key: Serde[SourceK] = DEFAULT_KEY,  # type: ignore[assignment]
        value: Serde[SourceV] = DEFAULT_VALUE,
        timestamp: TimestampExtractor | None = None,
        offset_reset: OffsetReset = None,
        watermark: WatermarkStrategy | None = None,
        late: LatePolicy | None = None,
        name: str | None = None,
    ) -> KStream[SourceK, SourceV]:
        """Read topics (a name, several, or a compiled pattern) as a stream.

        ``watermark``: what its records say about how far event time has come, and when a quiet partition is not waited for.
        ``late``: what windows and joins do with records that come after the end of their window.
        """
        check_watermark(watermark)
        check_late(late)
        names, pattern = split_topics(topics)
        named = self._graph.name(name, STREAM_SOURCE)
        reset = reset_text(offset_reset)
        source = SourceNode(named, names, key, value, pattern, check_extractor(timestamp), reset, watermark, late)
        node = GraphNode(named, lambda topology, node: _ignore(topology.add(source)), source=source)
        self._graph.add(node, self._graph.root)
        return KStream(self._graph, node, named, key, value, frozenset([named]))

    def table(
        self,
        topic: str,
        *,
        key: Serde[SourceK] = DEFAULT_KEY,  # type: ignore[assignment]
        value: Serde[SourceV] = DEFAULT_VALUE,
        timestamp: TimestampExtractor | None = None,
        offset_reset: OffsetReset = None,
        watermark: WatermarkStrategy | None = None,
        late: LatePolicy | None = None,
        store: StoreOption = None,
        name: str | None = None,
    ) -> KTable[SourceK, SourceV]:
        """Read a topic as a table: each record replaces the row of its key, None deletes it.

        ``watermark``: what its records say about event time, as for ``stream``.
        ``late``: what becomes of records that event time had passed; without it they replace the row, too.
        """
        check_watermark(watermark)
        check_late(late)
        kept = table_store(self._graph, store, f"{check_name(topic, 'topic')}-", (key, value))
        source_name = self._graph.name(name, STREAM_SOURCE, "-source")
        named = self._graph.name(name, TABLE_SOURCE)
        source = SourceNode(
            source_name,
            (topic,),
            key,
            value,
            timestamp=check_extractor(timestamp),
            offset_reset=reset_text(offset_reset),
            watermark=watermark,
            late=late,
        )
        table = SourceTable(kept.spec, kept.named)
        refuses = late not in (None, LatePolicy.accept)
        operator = PunctualTableSource if refuses else TableSource

        def write(topology: Topology, node: GraphNode) -> None:
            topology.add(source)
            # the topic is also the changelog, if that optimisation is on and every record of it is a row, with its time
            is_row = timestamp is None and not refuses
            reused = {"logged": False, "source_topic": topic} if node.reuses_topic and is_row else {}
            processor(
                lambda node: operator(store=table.store, send_old=table.send_old),
                stores=lambda: [spec.with_(**reused) for spec in table.specs()],
                parents=(source_name,),
            )(topology, node)

        node = GraphNode(named, write, versioned=kept.versioned, table_topic=topic)
        self._graph.add(node, self._graph.root)
        return KTable(self._graph, node, key, value, frozenset([source_name]), table, kept.queryable)

    def global_table(
        self,
        topic: str,
        *,
        key: Serde[SourceK] = DEFAULT_KEY,  # type: ignore[assignment]
        value: Serde[SourceV] = DEFAULT_VALUE,
        timestamp: TimestampExtractor | None = None,
        store: StoreOption = None,
        name: str | None = None,
    ) -> GlobalKTable[SourceK, SourceV]:
        """Read a topic as a table of which every lane has all rows."""
        kept = table_store(self._graph, store, f"{check_name(topic, 'topic')}-", (key, value))
        if kept.spec.kind is StoreKind.VERSIONED:
            raise TopologyError("a global table cannot be versioned: use Stores.key_value, or table()")
        spec = kept.spec.with_(cached=False)
        self._global(spec, topic, TableSource(store=spec.name), key, value, timestamp, name)
        return GlobalKTable(spec, spec.name)

    def scheduled(
        self,
        every_or_cron: timedelta | int | str,
        emitter: Callable[[EmitterContext], Any],
        *,
        key: Serde[SourceK] = DEFAULT_KEY,  # type: ignore[assignment]
        value: Serde[SourceV] = DEFAULT_VALUE,
        name: str | None = None,
    ) -> KStream[SourceK, SourceV]:
        """Make a stream of what ``emitter(context)`` forwards when it is due: by an interval, or by a cron expression, in UTC.

        It runs in one place, inside the barrier: each due time has its effects once, also over kills and restarts. Of due times
        that were missed while the application was down, the latest one fires, once. The records find the lane of their key where
        one is needed, as after ``select_key``.

        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.scheduled("*/5 * * * *", lambda context: context.forward("beat", context.timestamp)).to("beats")
        >>> with TopologyTestDriver(builder) as driver:
        ...     driver.advance_wall_clock(timedelta(minutes=6))
        ...     driver.output_topic("beats").read()
        Record(key='beat', value=300000, timestamp=300000, headers=())
        """
        check_function(emitter, "scheduled", "context")
        named = self._graph.name(name, SCHEDULED_SOURCE)
        source = SourceNode(named, (), key, value, schedule=Scheduled(as_schedule(every_or_cron), emitter))
        node = GraphNode(named, lambda topology, node: _ignore(topology.add(source)), key_changing=True)
        self._graph.add(node, self._graph.root)
        return KStream(self._graph, node, named, key, value, frozenset([named]), rekeyed=True)

    def add_state_store(self, spec: StoreSpec) -> StreamsBuilder:
        """Add a store for ``process``, ``process_values`` and ``transform_values`` to use by name."""
        if not isinstance(spec, StoreSpec):
            raise TopologyError(f"add_state_store() takes a store, e.g. Stores.key_value('seen'), but got {spec!r}")
        node = GraphNode(spec.name, lambda topology, node: _ignore(topology.add_state_store(spec)))
        self._graph.add(node, self._graph.root)
        return self

    def add_global_store(
        self,
        spec: StoreSpec,
        topic: str,
        processor: Callable[[], Any],
        *,
        key: Serde[Any] = DEFAULT_KEY,
        value: Serde[Any] = DEFAULT_VALUE,
        timestamp: TimestampExtractor | None = None,
        name: str | None = None,
    ) -> StreamsBuilder:
        """Keep a whole topic in a store that every lane can read; ``processor`` writes it."""
        updater = Process(supplier=processor)
        self._global(spec, check_name(topic, "topic"), updater, key, value, timestamp, name)
        return self

    def build(self, *, optimize: str | Iterable[str] = ()) -> Topology:
        """Return the topology. It can be built more than once.

        ``optimize``: "all", or some of ``reuse_ktable_source_topics``, ``merge_repartition_topics`` and
        ``single_store_self_join``.
        """
        graph = rewrite(self._graph, optimize)
        topology = Topology(wrapper=self._wrapper)
        for node in graph.in_order():
            node.write(topology, node)
        for group in graph.copartitions:
            topology.copartition(name for name in group if name in topology.nodes)
        topology.check_partitions()
        if self._explicit_names:
            check_explicit(topology, graph.generated)
        return topology

    def _global(
        self,
        spec: StoreSpec,
        topic: str,
        operator: Operator,
        key: Serde[Any],
        value: Serde[Any],
        timestamp: TimestampExtractor | None,
        name: str | None,
    ) -> None:
        check_no_topic_config(spec)
        source_name = self._graph.name(name, STREAM_SOURCE, "-source")
        named = self._graph.name(name, TABLE_SOURCE)
        source = SourceNode(source_name, (topic,), key, value, timestamp=check_extractor(timestamp))

        def write(topology: Topology, node: GraphNode) -> None:
            updater = ProcessorNode(named, operator, (source_name,))
            topology.add_global(GlobalStore(source, updater, spec.name), spec)

        self._graph.add(GraphNode(named, write), self._graph.root)


def _ignore(result: object) -> None:
    """Let an expression stand where nothing is returned."""
