"""Word count, run in the test driver.

Prints::

    hello 1
    stream 1
    hello 2
"""

from penstock import Serdes, StreamsBuilder
from penstock.testing import TopologyTestDriver

builder = StreamsBuilder()
(
    builder.stream("lines", value=Serdes.string)
    .flat_map_values(str.split)
    .group_by(lambda _, word: word)
    .count(store="counts")
    .to_stream()
    .to("word-counts")
)

if __name__ == "__main__":
    with TopologyTestDriver(builder) as driver:
        lines = driver.input_topic("lines", value=Serdes.string)
        lines.pipe(None, "hello stream")
        lines.pipe(None, "hello")
        for record in driver.output_topic("word-counts", value=Serdes.int64).read_all():
            print(record.key, record.value)
