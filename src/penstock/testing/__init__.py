"""Test a topology without a broker, Spark or a JVM: ``TopologyTestDriver``."""

from penstock.clock import MockClock
from penstock.testing.driver import TopologyTestDriver
from penstock.testing.topics import InputTopic, OutputTopic

__all__ = ["InputTopic", "MockClock", "OutputTopic", "TopologyTestDriver"]
