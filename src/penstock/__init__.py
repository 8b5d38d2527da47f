"""Kafka Streams for Python, run on Apache Spark."""

from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.options import Buffer, Suppressed
from penstock.errors import PenstockError, TopologyError
from penstock.operators.emit import EmitStrategy
from penstock.record import Record, Windowed
from penstock.serde import Serde, Serdes
from penstock.state.spec import Stores
from penstock.topology.topology import Topology
from penstock.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

__all__ = [
    "Buffer",
    "EmitStrategy",
    "JoinWindows",
    "PenstockError",
    "Record",
    "Serde",
    "Serdes",
    "SessionWindows",
    "SlidingWindows",
    "Stores",
    "StreamsBuilder",
    "Suppressed",
    "TimeWindows",
    "Topology",
    "TopologyError",
    "UnlimitedWindows",
    "Windowed",
]
