"""The oracle: Penstock's public interface, run by the real Kafka Streams.

A test writes a topology once, as a function of a builder, and gives it `oracle.StreamsBuilder()` and Penstock's own.
Everything below is an adapter without logic: options, functions and values are converted, and Java does the work.

General layout:

    jvm        one JVM per process, Java classes by name, folders for state
    convert    values, functions and serdes between Python and Java
    options    windows, suppress, stores and the configuration of nodes
    dsl        StreamsBuilder, KStream, KTable, grouped, windowed, cogrouped; Topology
    papi       Processor, context and stores
    driver     TopologyTestDriver
"""

from .convert import OracleError
from .driver import APPLICATION_ID, TopologyTestDriver
from .dsl import GlobalKTable, KStream, KTable, StreamsBuilder, Topology
from .jvm import start

__all__ = [
    "APPLICATION_ID",
    "GlobalKTable",
    "KStream",
    "KTable",
    "OracleError",
    "StreamsBuilder",
    "Topology",
    "TopologyTestDriver",
    "start",
]
