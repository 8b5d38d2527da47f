"""Stateless operators: what goes in, what comes out, in which order."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from one_operator import OneOperator

from penstock.errors import ProcessingError
from penstock.operators.base import Operator
from penstock.operators.stateless import (
    Branch,
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Map,
    MapValues,
    PassThrough,
    Peek,
    Print,
    SelectKey,
    has_key,
)
from penstock.testing import TopologyTestDriver
from penstock.topology.node import ProcessorNode
from penstock.topology.topology import Topology

RECORDS = [("a", 1, 10), (None, 2, 5), ("b", None, 5), ("a", 4, 20)]


def is_even(key: Any, value: Any) -> bool:
    return value is not None and value % 2 == 0


def run(operator: Operator, records: list[tuple[Any, ...]] = RECORDS) -> list[tuple[Any, Any, int]]:
    return OneOperator(operator).pipe_all(records)


def test_filter_drops_records_the_predicate_rejects() -> None:
    assert run(Filter(is_even)) == [(None, 2, 5), ("a", 4, 20)]


def test_filter_not_drops_records_the_predicate_accepts() -> None:
    assert run(Filter(is_even, negate=True)) == [("a", 1, 10), ("b", None, 5)]


def test_filter_takes_any_truth_value() -> None:
    assert run(Filter(lambda key, value: value)) == [("a", 1, 10), (None, 2, 5), ("a", 4, 20)]


def test_has_key_drops_records_without_a_key() -> None:
    assert run(Filter(has_key)) == [("a", 1, 10), ("b", None, 5), ("a", 4, 20)]


def test_select_key_replaces_the_key_and_keeps_value_and_time() -> None:
    assert run(SelectKey(lambda key, value: f"{key}{value}")) == [
        ("a1", 1, 10),
        ("None2", 2, 5),
        ("bNone", None, 5),
        ("a4", 4, 20),
    ]


def test_select_key_may_return_no_key() -> None:
    assert run(SelectKey(lambda key, value: None), [("a", 1, 0)]) == [(None, 1, 0)]


def test_map_replaces_key_and_value() -> None:
    assert run(Map(lambda key, value: (value, key)), [("a", 1, 3)]) == [(1, "a", 3)]


def test_map_takes_a_list_of_two_as_a_pair() -> None:
    assert run(Map(lambda key, value: [value, key]), [("a", 1, 3)]) == [(1, "a", 3)]


@pytest.mark.parametrize("result", [None, "ab", (1,), (1, 2, 3), 5])
def test_map_refuses_what_is_not_a_pair(result: Any) -> None:
    with pytest.raises(TypeError, match=r"must return a \(key, value\) pair"):
        run(Map(lambda key, value: result))


def test_flat_map_forwards_every_pair_in_order_with_the_time_of_the_record() -> None:
    twice = FlatMap(lambda key, value: [(key, value), (value, key)])
    assert run(twice, [("a", 1, 3)]) == [("a", 1, 3), (1, "a", 3)]


def test_flat_map_may_return_nothing_or_a_generator() -> None:
    repeated = FlatMap(lambda key, value: ((key, i) for i in range(value)))
    assert run(repeated, [("a", 0, 1), ("b", 2, 2)]) == [("b", 0, 2), ("b", 1, 2)]


def test_flat_map_refuses_none() -> None:
    with pytest.raises(TypeError, match="not None"):
        run(FlatMap(lambda key, value: None))  # type: ignore[arg-type,return-value]


def test_flat_map_refuses_items_that_are_not_pairs() -> None:
    with pytest.raises(TypeError, match="flat_map must return"):
        run(FlatMap(lambda key, value: [5]))  # type: ignore[list-item]


def test_map_values_is_called_for_none_too_and_may_return_it() -> None:
    assert run(MapValues(lambda value: None if value == 1 else repr(value))) == [
        ("a", None, 10),
        (None, "2", 5),
        ("b", "None", 5),
        ("a", "4", 20),
    ]


def test_map_values_with_key_gets_the_key_first() -> None:
    assert run(MapValues(lambda key, value: (key, value), with_key=True), [("a", 1, 3)]) == [("a", ("a", 1), 3)]


def test_flat_map_values_forwards_one_record_per_item() -> None:
    assert run(FlatMapValues(str.split), [("a", "x y", 3), ("b", "", 4)]) == [("a", "x", 3), ("a", "y", 3)]


def test_flat_map_values_with_key_gets_the_key_first() -> None:
    keyed = FlatMapValues(lambda key, value: [key, value], with_key=True)
    assert run(keyed, [("a", 1, 3)]) == [("a", "a", 3), ("a", 1, 3)]


def test_headers_pass_through_every_operator() -> None:
    headers = (("trace", b"1"), ("trace", None))
    operators = [
        Filter(lambda key, value: True),
        SelectKey(lambda key, value: key),
        Map(lambda key, value: (key, value)),
        FlatMap(lambda key, value: [(key, value)]),
        MapValues(lambda value: value),
        FlatMapValues(lambda value: [value]),
        Peek(lambda key, value: None),
        PassThrough(),
    ]
    for operator in operators:
        node = OneOperator(operator)
        node.pipe("a", 1, 10, headers)
        assert node.forwarded == [("a", 1, 10, headers)]


def test_peek_sees_each_record_before_the_next_node() -> None:
    seen: list[Any] = []
    node = OneOperator(Peek(lambda key, value: seen.append((key, value, len(node.forwarded)))))
    node.pipe_all([("a", 1, 0), (None, None, 1)])
    assert seen == [("a", 1, 0), (None, None, 1)]
    assert len(node.forwarded) == 2


def test_foreach_sees_each_record_and_forwards_nothing() -> None:
    seen: list[Any] = []
    assert run(Foreach(lambda key, value: seen.append((key, value)))) == []
    assert seen == [record[:2] for record in RECORDS]


def test_print_writes_label_key_and_value(capsys: pytest.CaptureFixture[str]) -> None:
    run(Print("orders"), [("a", 1, 0), (None, None, 1)])
    assert capsys.readouterr().out == "[orders]: a, 1\n[orders]: None, None\n"


def test_print_uses_the_node_as_label(capsys: pytest.CaptureFixture[str]) -> None:
    run(Print(), [("a", 1, 0)])
    assert capsys.readouterr().out == "[THE-NODE]: a, 1\n"


def test_print_appends_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("before\n")
    topology = Topology().add_source("in", "in").add(ProcessorNode("print", Print("l", str(path)), ("in",)))
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("in").pipe("a", 1, 0)
    assert path.read_text() == "before\n[l]: a, 1\n"


def branches(predicates: tuple[Any, ...], children: tuple[str, ...]) -> Topology:
    topology = Topology().add_source("in", "in")
    topology.add(ProcessorNode("branch", Branch(predicates, children), ("in",)))
    for child in children:
        topology.add(ProcessorNode(child, PassThrough(), ("branch",))).add_sink(f"{child}-sink", child, child)
    return topology


def sent(topology: Topology, values: list[Any], *topics: str) -> list[list[Any]]:
    with TopologyTestDriver(topology) as driver:
        for value in values:
            driver.input_topic("in").pipe("k", value, 0)
        return [driver.output_topic(topic).read_values() for topic in topics]


def test_branch_sends_a_record_to_the_first_match_only() -> None:
    topology = branches((lambda k, v: v > 10, lambda k, v: v > 5), ("big", "middle"))
    assert sent(topology, [1, 7, 20], "big", "middle") == [[20], [7]]


def test_branch_sends_the_rest_to_the_default_child() -> None:
    topology = branches((lambda k, v: v > 10,), ("big", "rest"))
    assert sent(topology, [1, 20, 2], "big", "rest") == [[20], [1, 2]]


def test_branch_with_a_default_only_sends_everything_there() -> None:
    assert sent(branches((), ("rest",)), [1, 2], "rest") == [[1, 2]]


def test_a_failing_function_is_named_with_its_node_and_record() -> None:
    def explode(value: int) -> int:
        return 1 // value

    topology = Topology().add_source("in", "numbers")
    topology.add(ProcessorNode("KSTREAM-MAPVALUES-1", MapValues(explode), ("in",)))
    with TopologyTestDriver(topology) as driver, pytest.raises(ProcessingError) as caught:
        driver.input_topic("numbers").pipe("k", 0, 7)
    assert "ZeroDivisionError" in str(caught.value)
    assert "KSTREAM-MAPVALUES-1" in str(caught.value)
    assert "numbers-0@0" in str(caught.value)
    assert "explode" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_operators_pickle_into_a_stage() -> None:
    for operator in [Filter(is_even), Map(divmod), Branch((is_even,), ("a", "b")), PassThrough(), Print("x")]:
        assert pickle.loads(pickle.dumps(operator)) == operator
