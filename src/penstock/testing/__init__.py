"""Test a topology without a broker, Spark or a JVM: ``TopologyTestDriver``. Or against a real broker: ``kafka_broker``."""

from typing import TYPE_CHECKING, Any

from penstock.clock import MockClock
from penstock.testing.driver import TopologyTestDriver
from penstock.testing.topics import InputTopic, OutputTopic

if TYPE_CHECKING:
    from penstock.testing.broker import kafka_broker

__all__ = ["InputTopic", "MockClock", "OutputTopic", "TopologyTestDriver", "kafka_broker"]


def __getattr__(name: str) -> Any:
    """Load the pytest fixture when it is asked for: programs that only use the driver need no pytest."""
    if name == "kafka_broker":
        from penstock.testing.broker import kafka_broker

        return kafka_broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
