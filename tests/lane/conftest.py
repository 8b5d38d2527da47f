"""What the tests of this folder share."""

from collections.abc import Callable

import pytest


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    return lambda: str(tmp_path_factory.mktemp("state"))
