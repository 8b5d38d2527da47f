"""Kafka Streams for Python, run on Apache Spark.

General layout
--------------
dsl         what users say: StreamsBuilder, KStream, KTable, groups, windows, joins
processor   what users implement: Processor, its context, punctuators, timers
topology    the graph as data: nodes, sub-topologies, describe()
operators   what happens to one record
state       stores: bytes inside, typed outside, a write-back map and a changelog
serde       bytes to values and back        windows     arithmetic of timestamps
plan, lane  the topology compiled, and run over the records of a shard
testing     TopologyTestDriver

Unpickling a stage in a worker imports this file, so it stays cheap: nothing here loads Spark or Kafka.
"""

from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.cogrouped import CogroupedKStream
from penstock.dsl.grouped import KGroupedStream
from penstock.dsl.grouped_table import KGroupedTable
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import GlobalKTable, KTable
from penstock.dsl.options import Buffer, Suppressed
from penstock.dsl.windowed import WindowedKStream
from penstock.errors import (
    ConfigError,
    DeserializationError,
    PenstockError,
    ProcessingError,
    ProductionError,
    SerializationError,
    StoreError,
    StreamsError,
    TimestampError,
    TopologyError,
)
from penstock.extractors import TimestampExtractor
from penstock.operators.emit import EmitStrategy
from penstock.processor import (
    Cancellable,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    Processor,
    ProcessorContext,
    PunctuationType,
    ValueTransformer,
)
from penstock.record import Change, Headers, Record, RecordMetadata, ValueAndTimestamp, VersionedRecord, Windowed
from penstock.serde import Serde, Serdes
from penstock.state.spec import Stores
from penstock.topology.topology import Topology
from penstock.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

__all__ = [
    "Buffer",
    "Cancellable",
    "Change",
    "CogroupedKStream",
    "ConfigError",
    "DeserializationError",
    "EmitStrategy",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "FixedKeyRecord",
    "GlobalKTable",
    "Headers",
    "JoinWindows",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "PenstockError",
    "ProcessingError",
    "Processor",
    "ProcessorContext",
    "ProductionError",
    "PunctuationType",
    "Record",
    "RecordMetadata",
    "Serde",
    "Serdes",
    "SerializationError",
    "SessionWindows",
    "SlidingWindows",
    "StoreError",
    "Stores",
    "StreamsBuilder",
    "StreamsError",
    "Suppressed",
    "TimeWindows",
    "TimestampError",
    "TimestampExtractor",
    "Topology",
    "TopologyError",
    "UnlimitedWindows",
    "ValueAndTimestamp",
    "ValueTransformer",
    "VersionedRecord",
    "Windowed",
    "WindowedKStream",
    "Windows",
]
