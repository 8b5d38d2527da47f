"""Tests of queries that need a broker use the fixtures of ``tests/app``."""

from tests.app.conftest import cluster, start  # noqa: F401
