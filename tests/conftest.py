"""Settings for all tests: property tests draw the same examples in every run, and none is judged by how long it took.

Set ``PENSTOCK_EXPLORE=1`` to look for new examples.
"""

import os

from hypothesis import HealthCheck, settings

from penstock.testing.broker import kafka_broker  # noqa: F401 (a fixture: one broker for all tests of a process)
from penstock.testing.spark import spark_session  # noqa: F401 (a fixture: one Spark session for all tests of a process)

settings.register_profile(
    "penstock",
    deadline=None,
    derandomize=not os.environ.get("PENSTOCK_EXPLORE"),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("penstock")
