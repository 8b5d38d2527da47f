"""Stores that are not persistent: beside the shard, found by every worker of a run, gone with the run."""

from itertools import pairwise

import msgspec
import pytest

from penstock import Processor, Stores, StreamsBuilder
from penstock.lane.memory_stores import WorkerShards
from penstock.plan.passes import make_plan
from penstock.protocol import state_folder
from penstock.protocol.request import EpochRequest, ShardRequest, Stage
from penstock.protocol.state_folder import application_folder, memory_folder, remove_memory
from penstock.state import pending
from penstock.state.base import Sealed


class Nothing(Processor):
    def process(self, record): ...


def stage_of(folder, run="one", **options):
    stores = [Stores.key_value("kept"), Stores.key_value("fast", persistent=False, **options)]
    builder = StreamsBuilder()
    builder.stream("in").process(Nothing, stores=stores)
    plan = make_plan(builder.build())
    return Stage(plan, "app", {}, 1, 1, str(folder), "nowhere:1", run=run)


ORDERS = EpochRequest(0, "", "life", (ShardRequest(),), {}, [], ("in",), {}, [], {}, {}, [])
ROWS = {"kept": Sealed([(b"k", b"1")]), "fast": Sealed([(b"k", b"2")], [], {"fast/part": [(b"p", b"3")]})}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """The file system in memory is that of the test."""
    monkeypatch.setattr(state_folder, "SHARED_MEMORY", tmp_path / "shm")
    monkeypatch.setattr(state_folder, "LEAST_BYTES", 0)
    (tmp_path / "shm").mkdir()


def committed(shards):
    """Write two epochs to the shard, and open it after the barrier of the second."""
    shards.open(0, ORDERS)
    versions, after = ("", "1.x", "2.x"), ORDERS
    for epoch, (before, version) in enumerate(pairwise(versions), 1):
        name = f"pending-{version}-0-a"
        shards.keep_pending(0, name, pending.pack(ROWS))
        after = msgspec.structs.replace(ORDERS, epoch=epoch, shards=(ShardRequest(version, before, (name,)),))
        shards.open(0, after)
    return shards.open(0, after), after


def test_the_writes_of_an_epoch_go_to_disk_and_to_memory(tmp_path):
    stage = stage_of(tmp_path / "state")
    shards = WorkerShards(stage)
    state, after = committed(shards)
    assert [state.map(name).get(key) for name, key in (("kept", b"k"), ("fast", b"k"), ("fast/part", b"p"))] == [
        b"1",
        b"2",
        b"3",
    ]
    assert {"kept", "fast", "fast/part"} <= set(state.names())
    disk = super(WorkerShards, shards).open(0, after)
    assert "fast" not in disk.names()
    assert memory_folder(stage, application_folder(stage)).is_relative_to(tmp_path / "shm")
    again = WorkerShards(stage)  # another worker of the run, which has nothing but the files
    again.drop_pending(0, ["pending-2.x-0-a"])
    assert again.open(0, after).map("fast").get(b"k") == b"2"


def test_another_run_begins_without_what_was_in_memory(tmp_path):
    stage = stage_of(tmp_path / "state", logged=False)
    _, after = committed(WorkerShards(stage))
    later = WorkerShards(stage_of(tmp_path / "state", run="two", logged=False))
    state = later.open(0, after)
    assert state.map("kept").get(b"k") == b"1"
    assert state.map("fast").get(b"k") is None
    assert not memory_folder(stage, application_folder(stage)).exists()  # the next run has swept it
    remove_memory(later.stage, application_folder(later.stage))
    assert not list((tmp_path / "shm").glob("*/*/*"))


def test_without_a_file_system_in_memory_it_is_a_folder_of_the_state(tmp_path, monkeypatch):
    monkeypatch.setattr(state_folder, "LEAST_BYTES", 1 << 80)
    stage = stage_of(tmp_path / "state")
    state, _ = committed(WorkerShards(stage))
    assert state.map("fast").get(b"k") == b"2"
    assert memory_folder(stage, application_folder(stage)) == tmp_path / "state" / "app" / "memory" / "run-one"
