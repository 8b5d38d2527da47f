"""Kafka Streams for Python, run on Apache Spark."""

from penstock.errors import PenstockError, TopologyError
from penstock.record import Record, Windowed
from penstock.serde import Serde, Serdes
from penstock.state.spec import Stores
from penstock.topology.topology import Topology
from penstock.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

__all__ = [
    "JoinWindows",
    "PenstockError",
    "Record",
    "Serde",
    "Serdes",
    "SessionWindows",
    "SlidingWindows",
    "Stores",
    "TimeWindows",
    "Topology",
    "TopologyError",
    "UnlimitedWindows",
    "Windowed",
]
