"""Settings for all tests: property tests draw the same examples in every run, and none is judged by how long it took.

Set ``PENSTOCK_EXPLORE=1`` to look for new examples. Everything that starts Spark runs in one worker of pytest-xdist, one test after
the other, beside all the others: two of them at once would fight for the cores.
"""

import gc
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.bodies import body  # noqa: F401 (a fixture)
from tests.failures import FailuresAtOnce
from tests.limits import Limits

from penstock.log.base import Admin
from penstock.log.kafka import KafkaLog

#: kafka_broker, schema_registry, spark_session: one of each for all tests of a process. Loaded once, though it has an entry point, too
pytest_plugins = ["penstock_pytest"]

settings.register_profile(
    "penstock",
    deadline=None,
    derandomize=not os.environ.get("PENSTOCK_EXPLORE"),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("penstock")

#: folders and files whose tests start Spark, besides those that ask for the fixture
SPARK = (
    "spark",
    "app",
    "exactly_once",
    "cli/test_run.py",
    "cli/test_demo.py",
    "cli/test_doctor.py",
    "dev/test_cluster.py",
)

NUMBERS = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    """Watch what the tests need of the machine, and name those that fail at once."""
    config.pluginmanager.register(Limits(), "limits")
    config.pluginmanager.register(FailuresAtOnce(config), "failures-at-once")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that start Spark together."""
    here = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(here).as_posix()
        fixtures = getattr(item, "fixturenames", ())  # there is one schema registry, too
        if "spark_session" in fixtures or "schema_registry" in fixtures or place.startswith(SPARK):
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_collection_finish() -> None:
    """Set aside what collecting nine thousand tests has made: every full run of Python's garbage collector went through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def nothing_set_aside() -> Iterator[None]:
    """For tests of what is set aside: undo that of all tests meanwhile."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def _admin() -> Iterator[Callable[[str], Admin]]:
    """One client for each broker that tests share."""
    made: dict[str, KafkaLog] = {}

    def admin(servers: str) -> Admin:
        if servers not in made:
            made[servers] = KafkaLog(servers, timeout=30)
        return made[servers].admin

    yield admin
    for log in made.values():
        log.close()


@pytest.fixture(autouse=True)
def _no_topics_are_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete the topics that a test has made in the broker that all share: each partition is an open file of the broker."""
    if "kafka_broker" not in request.fixturenames:
        yield
        return
    admin = request.getfixturevalue("_admin")(request.getfixturevalue("kafka_broker").bootstrap_servers)
    before = admin.topics().keys()
    yield
    admin.delete_topics(admin.topics().keys() - before)


@pytest.fixture
def name() -> Callable[[str], str]:
    """Give names that no other test has: the broker is shared."""
    number = next(NUMBERS)
    return lambda word: f"{word}-{os.getpid()}-{number}"
