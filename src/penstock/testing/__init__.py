"""Test a topology without a broker, Spark or a JVM: ``TopologyTestDriver``.

Or for real: ``kafka_broker``, ``schema_registry``, ``spark_session``.
"""

from typing import TYPE_CHECKING, Any

from penstock.clock import MockClock
from penstock.testing.driver import TopologyTestDriver
from penstock.testing.topics import InputTopic, OutputTopic

if TYPE_CHECKING:
    from penstock.testing.broker import kafka_broker
    from penstock.testing.registry import schema_registry
    from penstock.testing.spark import spark_session

__all__ = [
    "InputTopic",
    "MockClock",
    "OutputTopic",
    "TopologyTestDriver",
    "kafka_broker",
    "schema_registry",
    "spark_session",
]


def __getattr__(name: str) -> Any:
    """Load a pytest fixture when it is asked for: programs that only use the driver need no pytest."""
    if name == "kafka_broker":
        from penstock.testing.broker import kafka_broker

        return kafka_broker
    if name == "schema_registry":
        from penstock.testing.registry import schema_registry

        return schema_registry
    if name == "spark_session":
        from penstock.testing.spark import spark_session

        return spark_session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
