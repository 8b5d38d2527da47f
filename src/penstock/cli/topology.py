"""``penstock topology``: look at what a program says, without running it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import JsonOption

if TYPE_CHECKING:
    from penstock.topology.topology import Topology


class TopologyFormat(StrEnum):
    """How a topology is shown."""

    text = "text"
    mermaid = "mermaid"
    svg = "svg"
    json = "json"
    plan = "plan"


def topology(
    address: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME",
            help="An App, a StreamsBuilder, a Topology, or a function that returns one: module:name or file.py:name.",
        ),
    ],
    form: Annotated[
        TopologyFormat,
        typer.Option(
            "--format", "-f", help="Kafka's text, a Mermaid flowchart, a picture, data, or the steps that run it."
        ),
    ] = TopologyFormat.text,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.", dir_okay=False)] = None,
    optimize: Annotated[
        list[str] | None,
        typer.Option(
            help="Optimise as build(optimize=...) does: all, reuse_ktable_source_topics, merge_repartition_topics, "
            "single_store_self_join. May be given several times."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the topology that a program describes."""
    from penstock.cli.locate import locate

    shown = rendered(locate(address, tuple(optimize or ())), TopologyFormat.json if as_json else form)
    if output is None:
        typer.echo(shown, nl=not shown.endswith("\n"))
    else:
        output.write_text(shown)


def rendered(found: Topology, form: TopologyFormat) -> str:
    """Return a topology in one of the forms."""
    import json

    from penstock.plan.passes import make_plan

    plan = make_plan(found)
    match form:
        case TopologyFormat.text:
            return found.describe()
        case TopologyFormat.mermaid:
            return found.to_mermaid(plan.batch_paths.notes())
        case TopologyFormat.svg:
            return found.to_svg(plan.batch_paths.notes())
        case TopologyFormat.json:
            return json.dumps(found.to_json(), indent=2) + "\n"
        case TopologyFormat.plan:
            return plan.explain() + "\n"
