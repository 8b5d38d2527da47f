"""A topology as a picture: SVG, made here, without a layout program.

Each sub-topology is a panel. Inside it a node stands one column right of the last of its parents, near the rows of its
parents; topics are at the ends, stores in a row at the bottom, below the nodes that use them. A topic between two
sub-topologies is drawn in both panels. Boxes and edges carry names (``data-name``,
``data-from``, ``data-to``): the page finds them by these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from xml.sax.saxutils import escape, quoteattr

from penstock.topology.mermaid import topics_of
from penstock.topology.node import SinkNode, SourceNode
from penstock.topology.subtopologies import group_nodes

if TYPE_CHECKING:
    from penstock.topology.readable import ReadableTopology

Kind = Literal["node", "topic", "store", "schedule"]
LETTER, LINE, HEIGHT, GAP, MARGIN = 6.7, 46, 26, 44, 18

#: every rule starts with the picture's own class: inside a notebook's page it must not touch anything else
STYLE = """\
.penstock text { font: 11px ui-monospace, Menlo, Consolas, monospace; fill: #1b2733; text-anchor: middle; }
.penstock text.title { font-weight: bold; text-anchor: start; fill: #5a6b7b; }
.penstock .panel { fill: #f6f8fa; stroke: #d0d7de; }
.penstock .node { fill: #ffffff; stroke: #57606a; }
.penstock .noted { stroke-dasharray: 4 3; }
.penstock .topic { fill: #ddf4ff; stroke: #0969da; }
.penstock .store { fill: #fff8c5; stroke: #9a6700; }
.penstock .schedule { fill: #fbefff; stroke: #8250df; }
.penstock .edge { fill: none; stroke: #57606a; marker-end: url(#penstock-arrow); }
.penstock .use { fill: none; stroke: #9a6700; stroke-dasharray: 3 3; }"""


@dataclass(eq=False)
class Box:
    """Something to draw. Column and row become ``x`` and ``y``, its centre, once all are known."""

    label: str
    kind: Kind
    parents: list[Box] = field(default_factory=list)
    note: str | None = None
    column: int = 0
    row: float = 0
    x: float = 0
    y: float = 0

    @property
    def width(self) -> float:
        """Wide enough for the label."""
        return len(self.label) * LETTER + 22


def to_svg(topology: ReadableTopology, notes: Mapping[str, str] | None = None) -> str:
    """Return the picture as the text of an SVG file.

    ``notes``: something to say of nodes, by their names; such have a dashed border, and the note shows under the pointer.
    """
    shapes: list[str] = []
    top, right = float(MARGIN), 0.0
    for number, group in enumerate(group_nodes(topology)):
        boxes, stores = _boxes(topology, group, notes or {})
        _columns(boxes)
        _rows(boxes)
        wide, high = _place(boxes, stores, top + 34)
        title = f"Sub-topology {number}" if group[0] in topology.nodes else f"Global store {number}"
        shapes += _panel(title, boxes, stores, top, wide, high)
        top += high + 34 + MARGIN
        right = max(right, wide)
    width, height = round(right + 2 * MARGIN), round(top)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="penstock" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
            f"<style>{STYLE}</style>",
            '<defs><marker id="penstock-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="#57606a"/></marker></defs>',
            *shapes,
            "</svg>\n",
        ]
    )


# what is drawn


def _boxes(
    topology: ReadableTopology, group: tuple[str, ...], notes: Mapping[str, str]
) -> tuple[list[Box], dict[Box, list[Box]]]:
    """Return the boxes of a sub-topology, parents before children, and the stores with the boxes that use them."""
    nodes: dict[str, Box] = {}
    boxes: list[Box] = []
    stores: dict[str, Box] = {}
    users: dict[Box, list[Box]] = {}
    for name in group:
        node = topology.node(name)
        kind: Kind = "schedule" if isinstance(node, SourceNode) and node.schedule is not None else "topic"
        topics = [Box(topic, kind) for topic in topics_of(node)]
        box = nodes[name] = Box(name, "node", [nodes[parent] for parent in node.parents], note=notes.get(name))
        if isinstance(node, SourceNode):
            boxes += topics
            box.parents = topics
        boxes.append(box)
        if isinstance(node, SinkNode):
            for topic in topics:
                topic.parents = [box]
            boxes += topics
        for store in topology.stores_of(name):
            users.setdefault(stores.setdefault(store, Box(store, "store")), []).append(box)
    return boxes, users


# where it is drawn


def _columns(boxes: list[Box]) -> None:
    """Put every box right of all its parents."""
    for box in boxes:
        box.column = max((parent.column + 1 for parent in box.parents), default=0)


def _rows(boxes: list[Box]) -> None:
    """Put every box near its parents, and no two of a column in one row."""
    for column in range(max((box.column for box in boxes), default=0) + 1):
        taken = -1.0
        wanted = sorted(
            ((_mean(parent.row for parent in box.parents), number, box)
             for number, box in enumerate(boxes) if box.column == column),
            key=lambda entry: entry[:2],
        )  # fmt: skip
        for row, _, box in wanted:
            box.row = taken = max(taken + 1, row)


def _mean(numbers: Iterable[float]) -> float:
    found = list(numbers)
    return sum(found) / len(found) if found else 0.0


def _place(boxes: list[Box], stores: dict[Box, list[Box]], top: float) -> tuple[float, float]:
    """Turn columns and rows into positions; return width and height of the whole."""
    x = float(2 * MARGIN)
    for column in range(max(box.column for box in boxes) + 1):
        inside = [box for box in boxes if box.column == column]
        width = max(box.width for box in inside)
        for box in inside:
            box.x, box.y = x + width / 2, top + MARGIN + box.row * LINE
        x += width + GAP
    height = max(box.row for box in boxes) * LINE + LINE
    end = 2.0 * MARGIN
    for store in sorted(stores, key=lambda store: _mean(user.x for user in stores[store])):
        store.x = max(_mean(user.x for user in stores[store]), end + store.width / 2)
        store.y = top + height + MARGIN
        end = store.x + store.width / 2 + 12
    return max(x - GAP, end), height + (LINE if stores else 0)


# how it is drawn


def _panel(
    title: str, boxes: list[Box], stores: dict[Box, list[Box]], top: float, width: float, height: float
) -> list[str]:
    lines = [
        f'<rect class="panel" x="{MARGIN}" y="{top:.0f}" width="{width:.0f}" height="{height + 34:.0f}" rx="6"/>',
        f'<text class="title" x="{MARGIN + 10}" y="{top + 18:.0f}">{title}</text>',
    ]
    lines += [_use(user, store) for store, users in stores.items() for user in users]
    lines += [_edge(parent, box) for box in boxes for parent in box.parents]
    lines += [_shape(box) for box in (*boxes, *stores)]
    return lines


def _edge(one: Box, other: Box) -> str:
    x1, x2 = one.x + one.width / 2, other.x - other.width / 2
    bend = (x2 - x1) / 2
    return (
        f'<path class="edge" data-from={quoteattr(one.label)} data-to={quoteattr(other.label)} '
        f'd="M{x1:.1f},{one.y:.1f} C{x1 + bend:.1f},{one.y:.1f} '
        f'{x2 - bend:.1f},{other.y:.1f} {x2:.1f},{other.y:.1f}"/>'
    )


def _use(node: Box, store: Box) -> str:
    return f'<path class="use" d="M{node.x:.1f},{node.y + HEIGHT / 2:.1f} L{store.x:.1f},{store.y - HEIGHT / 2:.1f}"/>'


def _shape(box: Box) -> str:
    left, top, width = box.x - box.width / 2, box.y - HEIGHT / 2, box.width
    match box.kind:
        case "node" | "schedule":
            round_ = 4 if box.kind == "node" else HEIGHT // 2
            place = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{HEIGHT}"'
            kind = box.kind if box.note is None else f"{box.kind} noted"
            shape = f'<rect class="{kind}" {place} rx="{round_}"/>'
        case "topic":
            points = ((left + 8, top), (left + width, top), (left + width - 8, top + HEIGHT), (left, top + HEIGHT))
            shape = f'<polygon class="topic" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
        case "store":
            arc = f"a{width / 2:.1f},4 0 0 0 {width:.1f},0"
            side = HEIGHT - 4
            shape = (
                f'<path class="store" d="M{left:.1f},{top + 2:.1f} v{side} {arc} v-{side} '
                f'a{width / 2:.1f},4 0 0 0 -{width:.1f},0 {arc}"/>'
            )
    text = f'<text x="{box.x:.1f}" y="{box.y + 4:.1f}">{escape(box.label)}</text>'
    note = "" if box.note is None else f"<title>{escape(box.note)}</title>"
    return f'<g data-kind="{box.kind}" data-name={quoteattr(box.label)}>{note}{shape}{text}</g>'
