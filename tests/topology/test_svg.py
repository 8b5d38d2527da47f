"""The picture of a topology: well-formed, complete, nothing on top of anything else."""

import re
from xml.dom import minidom

import pytest

from penstock import StreamsBuilder, Topology
from penstock.cli.demo_topology import topology as demo


def texts(svg: str) -> list[str]:
    return [text.firstChild.data for text in minidom.parseString(svg).getElementsByTagName("text")]


def rectangles(svg: str) -> list[tuple[float, float, float, float]]:
    found = re.findall(r'<rect class="node" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', svg)
    return [tuple(map(float, numbers)) for numbers in found]


def test_every_node_topic_and_store_has_a_label():
    drawn = texts(demo().to_svg())
    assert set(demo().nodes) <= set(drawn)
    assert {"purchases", "products", "customer-spend", "category-revenue", "spend", "revenue", "catalogue"} <= set(
        drawn
    )


def test_nodes_do_not_overlap():
    boxes = rectangles(demo().to_svg())
    assert len(boxes) == len(demo().nodes)
    for number, (x1, y1, w1, h1) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[number + 1 :]:
            assert x1 + w1 <= x2 or x2 + w2 <= x1 or y1 + h1 <= y2 or y2 + h2 <= y1


def test_names_are_escaped():
    topology = Topology().add_source("a<b>&", "t").add_sink("s", lambda key, value, origin: "x", "a<b>&")
    assert "a<b>&" in texts(topology.to_svg())


def test_the_picture_is_the_same_each_time():
    assert demo().to_svg() == demo().to_svg()


def test_a_global_store_has_a_panel_of_its_own():
    builder = StreamsBuilder()
    builder.global_table("products", store="products")
    builder.stream("orders").to("out")
    assert "Global store 0" in texts(builder.build().to_svg())


def test_a_notebook_shows_the_picture_without_touching_its_page():
    shown = demo()._repr_html_()
    assert "<svg" in shown
    rules = re.search(r"<style>(.*?)</style>", shown, re.DOTALL)[1].splitlines()
    assert [rule for rule in rules if not rule.startswith(".penstock ")] == []


@pytest.mark.parametrize("size", [1, 30])
def test_wide_and_long_topologies_are_drawn(size):
    topology = Topology().add_source("in", "t")
    for number in range(size):
        topology.add_sink(f"out{number}", f"t{number}", "in")
    assert len(rectangles(topology.to_svg())) == size + 1
