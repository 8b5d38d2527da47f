"""The broker, the Spark session and the applications of ``tests/app``."""

from tests.app.conftest import cluster, start

__all__ = ["cluster", "start"]
