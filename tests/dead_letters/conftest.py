"""A cluster in memory, with dead letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.dead_letters.letters import letter_row, write

from penstock.log.base import TopicSpec
from penstock.log.memory import MemoryLog


@pytest.fixture
def log() -> MemoryLog:
    """A cluster with a source topic and a dead-letter topic."""
    log = MemoryLog()
    log.admin.ensure_topics([TopicSpec("orders", 2), TopicSpec("dead", 2)])
    return log


@pytest.fixture
def dead(log: MemoryLog) -> Callable[..., None]:
    """Write dead letters: one for each number."""

    def call(*numbers: int, **options: Any) -> None:
        write(log, [letter_row("dead", number, **options) for number in numbers])

    return call
