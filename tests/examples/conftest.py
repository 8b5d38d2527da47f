"""Examples that are run through Spark and the shared broker use the fixtures of ``tests/app``."""

from collections.abc import Callable

import pytest
from tests.app.conftest import Cluster, cluster, start  # noqa: F401

from penstock.log.base import TopicSpec


@pytest.fixture
def topics(cluster: Cluster) -> Callable[..., str]:  # noqa: F811
    """Make topics whose names have one prefix, and return that."""

    def make(*words: str, partitions: int = 1) -> str:
        prefix = f"{cluster.tag}."
        kept = {"retention.ms": "-1"}
        cluster.log.admin.ensure_topics([TopicSpec(f"{prefix}{word}", partitions, kept) for word in words])
        return prefix

    return make
