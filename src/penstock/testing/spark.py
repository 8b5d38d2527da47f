"""A pytest fixture: one Spark session for the whole test session.

Where Penstock is installed, pytest knows it (`penstock_pytest`)::

    def test_my_application(kafka_broker, spark_session):
        servers = kafka_broker.bootstrap_servers
        with App(builder, application_id="test", bootstrap_servers=servers, spark=spark_session) as app:
            ...

pytest-spark has a fixture of the same name, and keeps it where it is installed; with it, or without the plugin, say
``pytest_plugins = ["penstock.testing.spark"]`` in ``conftest.py``.

Spark takes ten seconds to start and is the same for all applications, so tests share it, on two cores. With pytest-xdist every
worker that asks has its own: keep such tests together with ``@pytest.mark.xdist_group("spark")`` and ``--dist loadgroup``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.engine.executor.spark_session import make_session
from penstock.errors import PenstockError

__all__ = ["running_session", "spark_session"]

#: where the fixture runs its lanes
MASTER = "local[2]"


def running_session() -> Iterator[Any]:
    """Start a session, give it, stop it."""
    try:
        session = make_session(MASTER, "penstock tests")
    except PenstockError as error:
        pytest.fail(f"Spark did not start: {error}", pytrace=False)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Any]:
    """A running session; an App takes it as ``spark=``."""
    yield from running_session()
