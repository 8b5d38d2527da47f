from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from penstock.state.base import ShardState
from penstock.state.lmdb_store import LmdbState
from penstock.state.memory import MemoryState


@pytest.fixture(params=["memory", "lmdb"])
def make_state(request, tmp_path) -> Iterator[Callable[[], ShardState]]:
    made: list[ShardState] = []

    def make() -> ShardState:
        fresh = MemoryState() if request.param == "memory" else LmdbState(tmp_path / f"shard-{len(made)}")
        made.append(fresh)
        return fresh

    yield make
    for state in made:
        state.destroy()


@pytest.fixture
def state(make_state) -> ShardState:
    return make_state()
