"""A pytest fixture: one real Kafka broker for the whole test session.

In ``conftest.py``::

    pytest_plugins = ["penstock.testing.broker"]

and in a test::

    def test_my_application(kafka_broker):
        app = App(builder, application_id="test", bootstrap_servers=kafka_broker.bootstrap_servers)

The jars are fetched once; then a broker starts in a few seconds. With pytest-xdist every worker has its own. Tests share it,
so give topics and applications names of their own. Needs pytest and Java; without Java the tests that ask for the broker fail and
say what to install.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.dev.broker import QUICK_START, Broker
from penstock.errors import PenstockError

__all__ = ["kafka_broker"]


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    """A running broker; ``kafka_broker.bootstrap_servers`` is its address."""
    try:
        broker = Broker(java_options=[QUICK_START]).start()
    except PenstockError as error:
        pytest.fail(f"the Kafka broker did not start: {error}", pytrace=False)
    yield broker
    broker.stop()
