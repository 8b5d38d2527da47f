"""A pytest fixture: one real schema registry for the whole test session.

Where Penstock is installed, pytest knows it (`penstock_pytest`)::

    def test_my_application(schema_registry):
        orders = Serdes.avro(Order, registry=schema_registry.url)

Its archive (109 MB) is fetched once; then it starts in about nine seconds. Tests share it, so give topics names of their own. Needs pytest
and Java; without Java the tests that ask for it fail and say what to install. For tests without one: ``registry="mock://name"``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.dev.registry import RegistryServer
from penstock.errors import PenstockError

__all__ = ["running_registry", "schema_registry"]


def running_registry() -> Iterator[RegistryServer]:
    """Start a registry, give it, stop it."""
    try:
        registry = RegistryServer().start()
    except PenstockError as error:
        pytest.fail(f"the schema registry did not start: {error}", pytrace=False)
    yield registry
    registry.stop()


@pytest.fixture(scope="session")
def schema_registry() -> Iterator[RegistryServer]:
    """A running registry; ``schema_registry.url`` is its address."""
    yield from running_registry()
