"""Kafka Streams for Python, run on Apache Spark.

General layout
--------------
dsl         what users say: StreamsBuilder, KStream, KTable, groups, windows, joins
processor   what users implement: Processor, its context, punctuators, timers
topology    the graph as data: nodes, sub-topologies, describe()
operators   what happens to one record
state       stores: bytes inside, typed outside, a write-back map and a changelog
serde       bytes to values and back        windows     arithmetic of timestamps
plan        the topology compiled for the lanes
protocol    what the driver and the workers tell each other
lane        runs in a worker: the plan over the records of a shard
log         Kafka: producer, admin, reader, and an in-memory twin
query       snapshots and queries of the stores
engine      runs on the driver: epochs (engine/executor: on Spark), the barrier, recovery; app: App, which wires it all
testing     TopologyTestDriver, a broker as a pytest fixture

Unpickling a stage in a worker imports this file, so it stays cheap: App, which knows Spark and Kafka, is loaded when it is asked for.
"""

from typing import TYPE_CHECKING, Any

from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.cogrouped import CogroupedKStream
from penstock.dsl.grouped import KGroupedStream
from penstock.dsl.grouped_table import KGroupedTable
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import GlobalKTable, KTable
from penstock.dsl.options import Buffer, Suppressed
from penstock.dsl.windowed import WindowedKStream
from penstock.errors import (
    BadKey,
    BrokerError,
    ConfigError,
    DeserializationError,
    EngineError,
    FencedError,
    NotAvailable,
    NotUpToBound,
    PenstockError,
    ProcessingError,
    ProductionError,
    QueryError,
    RecoveryError,
    RegistryError,
    SerializationError,
    SnapshotClosed,
    StateError,
    StoreError,
    StreamsError,
    TimestampError,
    TopicError,
    TopologyChanged,
    TopologyError,
    UnknownStore,
    WrongQuery,
)
from penstock.extractors import TimestampExtractor
from penstock.operators.emit import EmitStrategy
from penstock.processor import (
    Cancellable,
    EmitterContext,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    Processor,
    ProcessorContext,
    PunctuationType,
    ValueTransformer,
)
from penstock.query.queries import (
    KeyQuery,
    MultiVersionedKeyQuery,
    PrefixQuery,
    RangeQuery,
    SessionQuery,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from penstock.query.result import QueryResult
from penstock.record import Change, Headers, Record, RecordMetadata, ValueAndTimestamp, VersionedRecord, Windowed
from penstock.serde import Serde, Serdes
from penstock.serde.registry.settings import SchemaRegistry
from penstock.state.spec import Stores
from penstock.topology.topology import Topology
from penstock.watermark import LatePolicy, WatermarkStrategy
from penstock.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

if TYPE_CHECKING:
    from penstock.app import App, Hook, RestoreProgress, State
    from penstock.query.routing import KeyMetadata
    from penstock.query.snapshot import Snapshot

__all__ = [
    "App",
    "BadKey",
    "BrokerError",
    "Buffer",
    "Cancellable",
    "Change",
    "CogroupedKStream",
    "ConfigError",
    "DeserializationError",
    "EmitStrategy",
    "EmitterContext",
    "EngineError",
    "FencedError",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "FixedKeyRecord",
    "GlobalKTable",
    "Headers",
    "Hook",
    "JoinWindows",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KeyMetadata",
    "KeyQuery",
    "LatePolicy",
    "MultiVersionedKeyQuery",
    "NotAvailable",
    "NotUpToBound",
    "PenstockError",
    "PrefixQuery",
    "ProcessingError",
    "Processor",
    "ProcessorContext",
    "ProductionError",
    "PunctuationType",
    "QueryError",
    "QueryResult",
    "RangeQuery",
    "Record",
    "RecordMetadata",
    "RecoveryError",
    "RegistryError",
    "RestoreProgress",
    "SchemaRegistry",
    "Serde",
    "Serdes",
    "SerializationError",
    "SessionQuery",
    "SessionWindows",
    "SlidingWindows",
    "Snapshot",
    "SnapshotClosed",
    "State",
    "StateError",
    "StoreError",
    "Stores",
    "StreamsBuilder",
    "StreamsError",
    "Suppressed",
    "TimeWindows",
    "TimestampError",
    "TimestampExtractor",
    "TimestampedKeyQuery",
    "TimestampedRangeQuery",
    "TopicError",
    "Topology",
    "TopologyChanged",
    "TopologyError",
    "UnknownStore",
    "UnlimitedWindows",
    "ValueAndTimestamp",
    "ValueTransformer",
    "VersionedKeyQuery",
    "VersionedRecord",
    "WatermarkStrategy",
    "WindowKeyQuery",
    "WindowRangeQuery",
    "Windowed",
    "WindowedKStream",
    "Windows",
    "WrongQuery",
]

_LAZY = ("App", "Hook", "KeyMetadata", "RestoreProgress", "Snapshot", "State")


def __getattr__(name: str) -> Any:
    """Load App and what belongs to it when it is first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from penstock import app

    return getattr(app, name)


def __dir__() -> list[str]:
    return __all__
