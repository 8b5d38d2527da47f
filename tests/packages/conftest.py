"""One build for all tests of a process."""

import pytest
from tests.distribution import built, installed


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    return built(tmp_path_factory.mktemp("distributions"))


@pytest.fixture(scope="session")
def environment(distributions, tmp_path_factory):
    """A folder with the wheel installed, and no compiler."""
    return installed(distributions[1], tmp_path_factory.mktemp("installed") / "environment")
