"""Counts and times of nodes, by a clock that only nodes move: 1 in ``a`` takes 10 ns, in ``b`` 5, in ``c`` 1."""

import pytest

from penstock.processor import node_meter
from penstock.processor.node_meter import NodeMeter, NodeWork


class Nodes:
    """A forks to b and c; b passes one of two on, and may fail."""

    def __init__(self, meter, monkeypatch):
        self.now = 0
        monkeypatch.setattr(node_meter, "stopwatch_ns", lambda: self.now)
        self._at = 0
        to_d = meter.edge("b", (("d", lambda *record: self.take(2)),))
        ends = meter.edge("d", ())

        def b(key, value, timestamp, headers):
            self.take(5_000)
            if value == "bad":
                raise ValueError(value)
            if value:
                to_d(key, value, timestamp, headers)

        self.a = meter.edge("a", (("b", b), ("c", lambda *record: self.take(1_000))))
        self.ends = ends

    def take(self, ns):
        self.now += ns

    def record(self, value=1):
        self.take(10_000)
        self.a("k", value, 0, ())


@pytest.fixture
def meter():
    return NodeMeter()


@pytest.fixture
def nodes(meter, monkeypatch):
    return Nodes(meter, monkeypatch)


def test_records_are_counted_whether_they_are_measured_or_not(meter, nodes):
    nodes.record()
    meter.within("a", nodes.record)
    meter.within("a", nodes.record, 0)
    meter.count_in("a", 3)
    work = meter.work()
    assert {name: each[:2] for name, each in work.items()} == {"a": (3, 3), "b": (3, 2), "c": (3, 0), "d": (2, 0)}


def test_what_goes_to_nobody_is_not_forwarded(meter, nodes):
    nodes.ends("k", 1, 0, ())
    assert meter.work() == {}


def test_a_node_has_the_time_that_nodes_below_do_not_take(meter, nodes):
    meter.within("a", nodes.record, 0)
    assert {name: each.us for name, each in meter.work().items()} == {"a": 10, "b": 5, "c": 1}


def test_records_that_are_not_measured_are_taken_to_be_like_those_that_are(meter, nodes):
    def section():
        nodes.record(0)
        meter.measure_no_more()
        for _ in range(9):
            nodes.record(0)

    meter.within("a", section)
    assert {name: each.us for name, each in meter.work().items()} == {"a": 100, "b": 50, "c": 10}


def test_after_so_many_calls_the_rest_is_taken_to_be_like_them(meter, nodes):
    meter.within("a", lambda: [nodes.record(0) for _ in range(10)], calls=4)
    found = meter.work()
    assert sum(each.us for each in found.values()) == 160
    assert found["b"].us > 3 * found["c"].us


def test_a_node_that_raises_has_its_time_and_works_no_more(meter, nodes):
    with pytest.raises(ValueError, match="bad"):
        meter.within("a", nodes.record, "bad")
    assert {name: each.us for name, each in meter.work().items() if each.us} == {"a": 10, "b": 5}
    assert meter.working is None

    def goes_on():
        with pytest.raises(ValueError, match="bad"):
            nodes.record("bad")
        assert meter.working == "a"
        nodes.take(7_000)

    meter.within("a", goes_on)
    assert meter.work()["a"].us == 10 + 17


def test_a_section_within_a_section_is_no_part_of_it(meter, nodes):
    """As the flush of a store: what it takes is that of its node."""

    def outer():
        nodes.take(3_000)
        meter.within("flush", nodes.take, 40_000)
        nodes.record(0)

    meter.within("a", outer)
    found = {name: each.us for name, each in meter.work().items()}
    assert found == {"flush": 40, "a": 13, "b": 5, "c": 1}


def test_work_done_elsewhere_is_added(meter):
    meter.add("a", NodeWork(3, 2, 10))
    meter.add("a", NodeWork(1, 0, 5))
    assert meter.work() == {"a": NodeWork(4, 2, 15)}
    meter.count("timers_fired_total", "a")
    meter.count("timers_fired_total", "a", times=2)
    assert meter.events == {("timers_fired_total", ("a",)): 3}
