"""A pytest fixture: one real Kafka broker for the whole test session.

Where Penstock is installed, pytest knows it (`penstock_pytest`)::

    def test_my_application(kafka_broker):
        app = App(builder, application_id="test", bootstrap_servers=kafka_broker.bootstrap_servers)

Without the plugin (``-p no:penstock_pytest``), ``pytest_plugins = ["penstock.testing.broker"]`` in ``conftest.py`` does the same.

The jars are fetched once; then a broker starts in a few seconds. With pytest-xdist every worker has its own. Tests share it,
so give topics and applications names of their own. Needs pytest and Java; without Java the tests that ask for the broker fail and
say what to install.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.dev.broker import QUICK_START, Broker
from penstock.errors import PenstockError

__all__ = ["kafka_broker", "running_broker"]


def running_broker() -> Iterator[Broker]:
    """Start a broker, give it, stop it."""
    try:
        broker = Broker(java_options=[QUICK_START]).start()
    except PenstockError as error:
        pytest.fail(f"the Kafka broker did not start: {error}", pytrace=False)
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    """A running broker; ``kafka_broker.bootstrap_servers`` is its address."""
    yield from running_broker()
