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

Speed, on two cores shared with others, JIT warm (`in_memory=True` / RocksDB); the JVM starts in 0.4 s once per process:

    topology               open a driver     records a second     a sequence of 30 records, whole
    stateless              2 / 1 ms          6400 / 8000          9 ms
    count                  2 / 9 ms          5900 / 5500          14 / 21 ms
    tumbling count         2 / 2 ms          2900 / 3900          20 / 25 ms
    stream-stream join     2 / 9 ms          3800 / 2900          14 / 36 ms
    foreign-key join       2 / 23 ms         2300 / 1800          16 / 54 ms

So 300 random sequences take 3 to 6 s in memory. State is kept under /dev/shm where there is one: the driver commits
after every record, and a commit of a persistent store syncs a file. A serde written in Python (JSON) costs some 50 µs a
call.

Not Kafka's, therefore not here: `scheduled`, `map_values_async`, `deduplicate`, timers, `context.view`, `is_late`,
`Stores.shared`, `ttl`, watermark strategies and late policies, several lanes or partitions.
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
