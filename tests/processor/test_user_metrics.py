"""Metrics of user code: what a processor counts, and what it may not do."""

import pytest

from penstock import Processor, Serdes, StreamsBuilder
from penstock.engine.user_totals import UserTotals
from penstock.errors import TopologyError
from penstock.processor.user_metrics import CollectedMetrics, NodeMetrics
from penstock.testing import TopologyTestDriver


class Counting(Processor):
    """Counts what it sees."""

    def process(self, record):
        metrics = self.context.metrics
        metrics.counter("seen").inc()
        metrics.counter("characters").inc(len(record.value))
        metrics.gauge("last").set(len(record.value))
        metrics.histogram("lengths", (2, 4)).observe(len(record.value))


def test_a_processor_counts():
    builder = StreamsBuilder()
    builder.stream("in", value=Serdes.string).process(Counting, name="counting")
    with TopologyTestDriver(builder) as driver:
        for key, value in (("a", "x"), ("b", "xyz"), ("c", "vwxyz")):
            driver.input_topic("in", value=Serdes.string).pipe(key, value)
        found = driver.metrics()["user"]
    assert found["seen"] == {"counting": 3}
    assert found["characters"] == {"counting": 9}
    assert found["last"] == {"counting": 5}
    assert found["lengths"] == {"counting": {"bounds": [2, 4], "counts": [1, 1, 1], "sum": 9}}


def test_lanes_are_added_up_and_gauges_stay_apart():
    totals = UserTotals()
    for lane in (0, 1, 1):
        collected = CollectedMetrics()
        metrics = NodeMetrics("n", collected)
        metrics.counter("seen").inc(2)
        metrics.gauge("size").set(10 + lane)
        metrics.histogram("wait", (1,)).observe(lane)
        totals.add(lane, collected.collected())
    assert totals.values["seen"] == {("n",): 6}
    assert totals.values["size"] == {("n", "0"): 10, ("n", "1"): 11}
    waits = totals.values["wait"][("n",)]
    assert (waits.cumulative(), waits.total) == ([3, 3], 2)


def test_wrong_use_is_refused():
    metrics = NodeMetrics("n", CollectedMetrics())
    metrics.counter("seen")
    with pytest.raises(TopologyError, match="is a counter already"):
        metrics.gauge("seen")
    with pytest.raises(TopologyError, match="small letters"):
        metrics.counter("Seen-orders")
    with pytest.raises(TopologyError, match="must rise"):
        metrics.histogram("wait", (2, 1))
    with pytest.raises(ValueError, match="only grows"):
        metrics.counter("seen").inc(-1)
