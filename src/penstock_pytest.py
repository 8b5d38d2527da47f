"""The pytest plugin of Penstock: its fixtures are there where it is installed (entry point ``pytest11``).

    def test_words_are_counted(topology_driver):
        driver = topology_driver(builder)
        ...

    def test_on_a_real_broker(kafka_broker, spark_session):
        app = App(builder, application_id="test", bootstrap_servers=kafka_broker.bootstrap_servers, spark=spark_session)

A module of its own, beside the package: pytest imports it in every run, of projects too that do not use it, so it imports nothing
but pytest until a test asks for a fixture. ``-p no:penstock_pytest`` leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from penstock.dev.broker import Broker
    from penstock.dev.registry import RegistryServer
    from penstock.testing import TopologyTestDriver

__all__ = ["SparkFixture", "kafka_broker", "pytest_configure", "schema_registry", "topology_driver"]


@pytest.fixture
def topology_driver() -> Iterator[Callable[..., TopologyTestDriver]]:
    """Make test drivers, with the arguments of `TopologyTestDriver`; they are closed at the end of the test."""
    from penstock.testing import TopologyTestDriver

    with ExitStack() as drivers:
        yield lambda *args, **options: drivers.enter_context(TopologyTestDriver(*args, **options))


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    """A real broker for all tests of this process; ``kafka_broker.bootstrap_servers`` is its address."""
    from penstock.testing.broker import running_broker

    yield from running_broker()


@pytest.fixture(scope="session")
def schema_registry() -> Iterator[RegistryServer]:
    """A real schema registry for all tests of this process; ``schema_registry.url`` is its address."""
    from penstock.testing.registry import running_registry

    yield from running_registry()


class SparkFixture:
    """The fixture whose name another plugin has, too."""

    @pytest.fixture(scope="session")
    def spark_session(self) -> Iterator[Any]:
        """A Spark session for all tests of this process; an App takes it as ``spark=``."""
        from penstock.testing.spark import running_session

        yield from running_session()


def pytest_configure(config: pytest.Config) -> None:
    """Leave ``spark_session`` to pytest-spark where that is installed; ``penstock.testing.spark`` still has ours."""
    if not config.pluginmanager.hasplugin("spark"):
        config.pluginmanager.register(SparkFixture(), "penstock_spark_session")
