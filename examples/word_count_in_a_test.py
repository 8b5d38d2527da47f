"""The topology of ``word_count.py`` in the test driver: no broker, no Spark, no Java.

Prints::

    hello 1
    stream 1
    hello 2
"""

from word_count import builder

from penstock import Serdes
from penstock.testing import TopologyTestDriver

if __name__ == "__main__":
    with TopologyTestDriver(builder) as driver:
        lines = driver.input_topic("lines", value=Serdes.string)
        lines.pipe(None, "hello stream")
        lines.pipe(None, "hello")
        for record in driver.output_topic("word-counts", value=Serdes.int64).read_all():
            print(record.key, record.value)
