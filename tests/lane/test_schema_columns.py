"""Values with a schema by column and one by one: same rows, same changelogs, same dead letters."""

import msgspec
import pytest
from both_ways import Runs, both_ways, trying, watch_columns
from google.protobuf.wrappers_pb2 import Int64Value
from hypothesis import given
from hypothesis import strategies as st

from penstock import Serdes


class Order(msgspec.Struct, frozen=True):
    user: str
    n: int
    note: str | None = None


orders, numbers, checked = Serdes.avro(Order), Serdes.protobuf(Int64Value), Serdes.json_schema(Order)


def avro(builder):
    stream = builder.stream("in", value=orders)
    stream.filter(lambda _, order: order.n != 1).to("out", value=orders)
    stream.group_by(lambda _, order: order.user, value=orders).reduce(max_order, store="largest", value=orders)
    stream.join(builder.table("side", value=orders), max_order).to("other", value=checked)


def protobuf(builder):
    stream = builder.stream("in", value=numbers)
    stream.filter(lambda _, number: number.value != 1).to("out", value=numbers)
    stream.group_by_key().reduce(larger, store="largest", value=numbers).to_stream().to("other", value=numbers)


def max_order(one, other):
    return one if one.n >= other.n else other


def larger(one, other):
    return one if one.value >= other.value else other


def inputs(good):
    value = good | st.sampled_from([None, b"\xff", b"\x02a"])
    place = (st.sampled_from(["in", "in", "side"]), st.integers(0, 1), st.sampled_from([b"a", b"b", b"c"]))
    records = st.lists(st.tuples(*place, value, st.integers(0, 40), st.none()), max_size=40)
    return st.lists(records, min_size=1, max_size=2)


avro_inputs = inputs(st.builds(Order, st.sampled_from("xyz"), st.integers(0, 4)).map(orders.serialize))
protobuf_inputs = inputs(st.integers(0, 4).map(lambda n: numbers.serialize(Int64Value(value=n))))


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@trying(20)
@given(epochs=avro_inputs)
def test_avro_by_column_is_avro_one_by_one(policy, folders, epochs):
    both_ways(avro, folders, epochs, policy, by_key=True)


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@trying(20)
@given(epochs=protobuf_inputs)
def test_protobuf_by_column_is_protobuf_one_by_one(policy, folders, epochs):
    both_ways(protobuf, folders, epochs, policy, by_key=True)


@pytest.mark.parametrize(
    ("shape", "value"), [(avro, orders.serialize(Order("x", 3))), (protobuf, numbers.serialize(Int64Value(value=3)))]
)
def test_values_with_a_schema_go_by_column(shape, value, folders, monkeypatch):
    taken = watch_columns(monkeypatch)
    runs = Runs(shape, folders(), "fail")
    runs.epoch([("in", at % 2, b"k%d" % (at % 3), value, at, None) for at in range(200)])
    runs.close()
    assert taken
    assert all(taken)
