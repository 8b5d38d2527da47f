"""What was found, as tables in Markdown; made from plain data, so that saved results can be written again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.columns import COLUMNS, number, spread
from bench.registry import WORKLOADS
from bench.runs import HEADLINES, middles, ratios, runs_of, said

BEGIN, END = "<!-- tables: written by penstock bench --markdown -->", "<!-- end of the tables -->"


def save(data: dict[str, Any], path: Path) -> None:
    """Write the tables to a file; into a page that has a place for them, between the two marks."""
    tables = "\n".join([BEGIN, "", *page(data), END])
    text = path.read_text() if path.exists() else f"{BEGIN}\n{END}\n"
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{head}{tables}{tail}" if begin and end else f"{text}\n{tables}\n")


def page(data: dict[str, Any]) -> Iterator[str]:
    """Yield the lines."""
    machine, plan = data["machine"], data["plan"]
    yield (
        f"{machine['cores']} cores with the broker, {machine['system']}, Python {machine['python']}; {plan['threads']} threads or lanes, "
        f"rounds: {plan['rounds']}, of which medians are shown (least to most). Commit {machine.get('commit') or 'unknown'}, "
        f"{machine.get('date') or 'date unknown'}."
    )
    yield ""
    for name, size in data["workloads"].items():
        yield from _workload(data, name, size)
    for heading in ("skipped", "failed"):
        for each in data[heading]:
            yield f"- {each['workload']}, {each['system']}: {heading}, {each['reason'].splitlines()[0]}"
    yield ""


def _workload(data: dict[str, Any], name: str, size: dict[str, int]) -> Iterator[str]:
    workload, runs = WORKLOADS[name], runs_of(data, name)
    yield f"### {name}"
    yield ""
    yield f"{workload.title[0].upper()}{workload.title[1:]}. {size['records']:,} records, {workload.partitions} partitions."
    yield ""
    if not runs:
        return
    columns, found = COLUMNS[workload.kind], middles(runs)
    headline = HEADLINES[workload.kind][0]
    yield f"| system | {' | '.join(columns)} |"
    yield f"| --- | {' | '.join('---:' for _ in columns)} |"
    labels = {run.row: run.title for run in runs}
    for row, figures in found.items():
        cells = [
            spread(figures[each]) if each == headline else number(figures[each].median) for each in columns.values()
        ]
        yield f"| {labels[row]} | {' | '.join(cells)} |"
    yield ""
    sentences = {pair: said(ratio, workload.kind) for pair, ratio in ratios(found, workload.kind).items()}
    if any(sentences.values()):
        yield "; ".join(f"**{pair}**: {sentence}" for pair, sentence in sentences.items() if sentence) + "."
        yield ""
