"""What the tests of this folder share."""

from collections.abc import Callable, Iterator

import pytest
from both_ways import Runs


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    return lambda: str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def _files_are_closed() -> Iterator[None]:
    yield
    for runs in list(Runs.left_open):
        runs.close()
