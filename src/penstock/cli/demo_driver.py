"""The demo without Kafka, Spark and Java: the same program and events in the test driver."""

from __future__ import annotations

from penstock.cli.demo_progress import Progress, Watch
from penstock.cli.demo_topology import REVENUE_KEY, Model, events, topology
from penstock.clock import SystemClock
from penstock.serde import Serdes
from penstock.testing import TopologyTestDriver


def run(purchases: int, seed: int, watch: Watch) -> Progress:
    """Send all events through the topology; call ``watch`` about ten times a second."""
    progress, model, now_ms = Progress(total=purchases, phase="in the test driver"), Model(), SystemClock().now_ms
    with TopologyTestDriver(topology()) as driver:
        topics = {name: driver.input_topic(name) for name in ("products", "purchases")}
        spend = driver.output_topic("customer-spend", value=Serdes.int64)
        revenue = driver.output_topic("category-revenue", key=REVENUE_KEY, value=Serdes.int64)

        def catch_up(at: int) -> None:
            progress.milliseconds = at - began
            for topic, table in ((spend, progress.spend), (revenue, progress.revenue)):
                news = topic.read_all()
                progress.written += len(news)
                table.update((record.key, record.value) for record in news)
            watch(progress)

        began = seen = now_ms()
        for event in events(purchases, seed):
            topics[event.topic].pipe(event.key, event.value, event.timestamp)
            model.take(event)
            progress.purchases += event.topic == "purchases"
            if (at := now_ms()) - seen >= 100:
                seen = at
                catch_up(at)
        catch_up(now_ms())
    progress.wanted = model.results
    return progress
