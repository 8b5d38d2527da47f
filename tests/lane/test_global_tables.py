"""The global tables of an executor are one environment, which several workers come to at the same time."""

from contextlib import contextmanager

from penstock import Serdes, StreamsBuilder
from penstock import config as configuration
from penstock.lane.worker import Worker
from penstock.plan.passes import make_plan
from penstock.protocol.request import EpochRequest, ShardRequest, Stage


def test_the_environment_is_made_under_the_lock(tmp_path, monkeypatch):
    builder = StreamsBuilder()
    table = builder.global_table("names", key=Serdes.string, value=Serdes.string, store="names")
    builder.stream("in").join(table, lambda value, name: name, select=lambda k, v: v).to("out")
    config = configuration.load({"application_id": "app"}, environ={})
    stage = Stage(make_plan(builder.build()), "app", config, 1, 1, str(tmp_path), "nowhere:1")
    worker = Worker(stage)
    environment = worker.globals
    locked, seen = environment._locked, []

    @contextmanager
    def watched():
        seen.append(environment._folder.exists())
        with locked():
            yield

    monkeypatch.setattr(environment, "_locked", watched)
    request = EpochRequest(
        epoch=1, token="1", incarnation="x", shards=(ShardRequest(),), changelogs={}, positions=[], topics=("in",),
        source_of={"in": "KSTREAM-SOURCE-0000000001"}, reached=[], partitions={}, snapshots={}, global_ends=[],
    )  # fmt: skip
    assert list(worker.globals.stores(request)) == ["names"]
    assert seen == [False]
    assert environment._folder.exists()
