"""What was found, as pictures: bars as SVG, written here, in the style of the pictures of topologies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from bench.columns import number
from bench.registry import WORKLOADS
from bench.runs import Middle, middles, ratios, runs_of
from bench.workloads.base import Kind

LETTER, BAR, GAP, MARGIN, WIDTH = 6.7, 20, 8, 18, 420

STYLE = """\
.penstock text { font: 11px ui-monospace, Menlo, Consolas, monospace; fill: #1b2733; }
.penstock text.title { font-weight: bold; fill: #5a6b7b; }
.penstock text.label { text-anchor: end; }
.penstock .panel { fill: #f6f8fa; stroke: #d0d7de; }
.penstock .bar { fill: #ddf4ff; stroke: #0969da; }
.penstock .other { fill: #ffffff; stroke: #57606a; }
.penstock .spread { stroke: #9a6700; stroke-width: 1.5; }
.penstock .one { stroke: #57606a; stroke-dasharray: 3 3; }"""

#: what the pictures of a kind show: figures, each with the words behind its value
SHOWN: dict[Kind, dict[str, str]] = {
    Kind.RATE: {"steady": "records/s"},
    Kind.LATENCY: {"p50_ms": "ms, p50", "p95_ms": "ms, p95", "p99_ms": "ms, p99"},
    Kind.RESTORE: {"restored_per_second": "rows/s"},
    Kind.RESTART: {"seconds_to_result": "s to a result", "seconds_to_caught_up": "s until caught up"},
    Kind.GROWTH: {"cpu_us_per_record": "µs of CPU a record"},
    Kind.ASKED: {"p99_ms": "ms, p99 of results"},
    Kind.ASKED_RATE: {"steady": "records/s"},
}


class Bar(NamedTuple):
    """One bar: Penstock's are ``ours``."""

    label: str
    value: Middle
    words: str
    ours: bool


def save(data: dict[str, Any], folder: Path) -> list[Path]:
    """Write a picture for every workload, and one of all ratios; return where."""
    folder.mkdir(parents=True, exist_ok=True)
    charts = {name: (WORKLOADS[name].title, list(_bars(data, name))) for name in data["workloads"]}
    pictures = {name: chart(title, bars) for name, (title, bars) in charts.items() if bars}
    if overview := list(_ratios(data)):
        title = "Penstock against Kafka Streams in Java: how many times as fast, same guarantee"
        pictures["overview"] = chart(title, overview, line_at=1)
    paths = []
    for name, text in pictures.items():
        paths.append(folder / f"{name}.svg")
        paths[-1].write_text(text)
    return paths


def _bars(data: dict[str, Any], name: str) -> Iterator[Bar]:
    runs = runs_of(data, name)
    labels, ours = {run.row: run.title for run in runs}, {run.row: run.system.startswith("penstock") for run in runs}
    for row, figures in middles(runs).items():
        for figure, words in SHOWN[WORKLOADS[name].kind].items():
            if not math.isnan(figures[figure].median):
                yield Bar(labels[row], figures[figure], words, ours[row])


def _ratios(data: dict[str, Any]) -> Iterator[Bar]:
    for name in data["workloads"]:
        kind = WORKLOADS[name].kind
        if kind is not Kind.RATE:
            continue
        for pair, found in ratios(middles(runs_of(data, name)), kind).items():
            ratio = found["steady"]
            if pair in ("penstock/java", "penstock-alo/java-alo") and not math.isnan(ratio):
                words = "at least once" if "alo" in pair else "exactly once"
                yield Bar(name, Middle(ratio, ratio, ratio), words, "alo" not in pair)


def chart(title: str, bars: Sequence[Bar], line_at: float | None = None) -> str:
    """Return a chart of bars, one below the other, as the text of an SVG file.

    >>> "12.0 records/s" in chart("t", [Bar("Penstock", Middle(12, 11, 13), "records/s", True)])
    True
    """
    left = MARGIN + max(len(bar.label) for bar in bars) * LETTER + 12
    most = max(max(bar.value.most for bar in bars), line_at or 0) or 1
    height = 2 * MARGIN + 20 + len(bars) * (BAR + GAP)
    width = round(max(left + WIDTH + 170, len(title) * LETTER + 2 * MARGIN + 24))
    shapes = [
        f'<rect class="panel" x="4" y="4" width="{width - 8}" height="{height - 8}" rx="6"/>',
        f'<text class="title" x="{MARGIN}" y="{MARGIN + 6}">{escape(title)}</text>',
    ]
    for position, bar in enumerate(bars):
        shapes += _shapes(bar, left, MARGIN + 20 + position * (BAR + GAP), WIDTH / most)
    if line_at is not None:
        x = left + line_at * WIDTH / most
        shapes.append(f'<path class="one" d="M{x:.1f},{MARGIN + 16} V{height - MARGIN}"/>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="penstock" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
            f"<style>{STYLE}</style>",
            *shapes,
            "</svg>\n",
        ]
    )


def _shapes(bar: Bar, left: float, top: float, scale: float) -> list[str]:
    end, middle = left + bar.value.median * scale, top + BAR / 2
    kind = "bar" if bar.ours else "other"
    drawn = [
        f'<text class="label" x="{left - 8:.1f}" y="{middle + 4:.1f}">{escape(bar.label)}</text>',
        f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{end - left:.1f}" height="{BAR}"/>',
    ]
    if bar.value.least < bar.value.most:
        ends = left + bar.value.least * scale, left + bar.value.most * scale
        drawn.append(f'<path class="spread" d="M{ends[0]:.1f},{middle:.1f} H{ends[1]:.1f}"/>')
    after = left + bar.value.most * scale + 8
    drawn.append(f'<text x="{after:.1f}" y="{middle + 4:.1f}">{number(bar.value.median)} {escape(bar.words)}</text>')
    return drawn
