from __future__ import annotations

import pytest
from tests.spark.runs import Bench


@pytest.fixture(scope="session")
def bench(kafka_broker, spark_session, tmp_path_factory):
    """One broker and one Spark session for all cases; each case has topics and an application of its own."""
    made = Bench(kafka_broker.bootstrap_servers, spark_session, tmp_path_factory.mktemp("state"))
    yield made
    made.close()
