"""Rows of several shards leave a step together, and those of a topic in their order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock import StreamsBuilder
from penstock import config as configuration
from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.provenance import provenance_of
from penstock.lane import output
from penstock.lane.output import StepOutput
from penstock.lane.sink import Row, SinkBatch
from penstock.plan.passes import make_plan
from penstock.protocol.envelope import CHANGELOG, SINK
from penstock.protocol.request import EpochRequest, Stage
from penstock.record import NO_ORIGIN
from penstock.serde import Serdes
from penstock.state.base import Sealed
from penstock.topology.node import SinkNode

ORDERS = EpochRequest(1, "1", "x", (), {}, [], ("in",), {}, [], {}, {}, [])


@pytest.fixture
def box():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    stage = Stage(
        make_plan(builder.build()), "app", configuration.load({"application_id": "app"}, environ={}), 4, 1, "", ""
    )
    return StepOutput(stage, ORDERS, stage.plan.steps[0], 0)


def row(value):
    return Row("out", None, b"k", value, 1, (), False, NO_ORIGIN)


def column(*values):
    data = pa.array(values, pa.binary())
    keys, items = (Column(data=data, serde=Serdes.bytes) for _ in range(2))
    columns = Batch(keys, items, np.ones(len(values), dtype=np.int64), None, provenance_of([NO_ORIGIN] * len(values)))
    return SinkBatch(SinkNode("sink", "out", (), Serdes.bytes, Serdes.bytes), 0, None, data, data, columns)


def values(batches):
    return [value for batch in batches for value in batch["value"].to_pylist()]


def test_few_rows_of_several_shards_are_one_batch(box):
    assert list(box.leaving([row(b"a"), row(b"b")])) == []
    assert list(box.changelog("counts", 0, Sealed([], [(b"k", b"1", 5, ())]))) == []
    assert list(box.leaving([row(b"c")])) == []
    assert list(box.changelog("counts", 2, Sealed([], [(b"k", b"2", 6, ()), (b"l", None, 7, (("h", b"1"),))]))) == []
    sinks, changelogs = box.rest()
    assert set(sinks["kind"].to_pylist()) == {SINK}
    assert values([sinks]) == [b"a", b"b", b"c"]
    assert set(changelogs["kind"].to_pylist()) == {CHANGELOG}
    told = [changelogs[name].to_pylist() for name in ("name", "partition", "key", "value", "timestamp")]
    assert told == [["counts"] * 3, [0, 2, 2], [b"k", b"k", b"l"], [b"1", b"2", None], [5, 6, 7]]
    assert list(box.rest()) == []


def test_many_rows_do_not_wait(box, monkeypatch):
    monkeypatch.setattr(output, "MANY", 2)
    assert values(box.leaving([row(b"a"), row(b"b")])) == [b"a", b"b"]
    assert values(box.changelog("counts", 0, Sealed([], [(b"k", b"1", 5, ()), (b"l", b"2", 5, ())]))) == [b"1", b"2"]


def test_rows_that_wait_leave_before_columns_of_their_topic(box):
    leaving = list(box.leaving([row(b"a"), column(b"b", b"c"), row(b"d")]))
    leaving += box.rest()
    assert values(leaving) == [b"a", b"b", b"c", b"d"]
    routes = [route for batch in leaving for route in batch["route"].to_pylist()]
    assert routes == sorted(routes)
