"""``penstock doctor``: what this machine has, what is wrong with it, and what to do.

Each file beside this one looks at one thing and yields findings: ``doctor_machine`` (Python, Java, libraries, jars, memory),
``doctor_state`` (the folder of the state), ``doctor_kafka`` (the cluster), ``doctor_spark``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.exits import FAILED
from penstock.cli.finding import Finding
from penstock.cli.kafka import BootstrapOption, ClientOption, client_settings
from penstock.cli.output import JsonOption, console, print_json, table_of
from penstock.masking import remember, scrubbed


def doctor(
    full: Annotated[bool, typer.Option("--full", help="Also start Spark and let it do a little work.")] = False,
    bootstrap: BootstrapOption = None,
    client: ClientOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check Java, libraries, jars, the state folder, Kafka and Spark. Exit code 1: something must be done."""
    findings = list(examine(bootstrap, client_settings(client), full))
    good = all(finding.good for finding in findings)
    if as_json:
        print_json({"good": good, "findings": [finding.data() for finding in findings]})
    else:
        _show(findings, full)
    if not good:
        raise typer.Exit(FAILED)


def examine(bootstrap: str | None, client: dict[str, str], full: bool) -> Iterator[Finding]:
    """Look at everything, in the order of a set-up."""
    from penstock.cli import doctor_kafka, doctor_machine, doctor_spark, doctor_state

    yield from doctor_machine.examine()
    config, wrong = settings()
    yield from wrong
    yield from doctor_state.examine(config)
    servers, kafka = bootstrap or config["bootstrap_servers"], {**config["kafka"], **client}
    remember(kafka)
    yield from doctor_kafka.examine(servers, kafka, config)
    yield from doctor_spark.examine(servers, kafka, full)


def settings() -> tuple[dict[str, Any], list[Finding]]:
    """Return the settings of this folder and environment; the defaults and a finding if they are wrong."""
    from penstock.config import load
    from penstock.errors import ConfigError

    try:
        return load({}, pyproject=Path("pyproject.toml")), []
    except ConfigError as error:
        wrong = Finding("settings", "wrong, so the defaults are looked at", f"correct it: {error}")
        return load({}, environ={}), [wrong]


def _show(findings: list[Finding], full: bool) -> None:
    from rich.text import Text

    marks = {"ok": Text("ok", "green"), "note": Text("note", "yellow"), "fix": Text("fix", "red")}
    rows: list[list[str | Text]] = [
        [marks[each.state], *map(scrubbed, (each.subject, each.found, each.advice))] for each in findings
    ]
    out = console()
    out.print(table_of(("", "what", "found", "to do"), rows))
    wrong = sum(not finding.good for finding in findings)
    out.print("Nothing must be done." if not wrong else f"{wrong} to do.")
    if not full:
        out.print("`penstock doctor --full` starts Spark, too.")
