"""All commands in one application, and what becomes of an error.

Exit codes: 0 done; 1 something is wrong (an error, a demo that differs, a doctor that found a problem); 2 wrong use (an option,
an address, a setting, a program that is refused): the same call fails again; 3 another instance of the application has taken over.
"""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from penstock.cli.bench import bench
from penstock.cli.consume import consume
from penstock.cli.dead_letters import dead_letters
from penstock.cli.demo import demo
from penstock.cli.dev import dev
from penstock.cli.doctor import doctor
from penstock.cli.exits import exit_code
from penstock.cli.init import init
from penstock.cli.produce import produce
from penstock.cli.query import query
from penstock.cli.reset import reset
from penstock.cli.run import run
from penstock.cli.settings import config
from penstock.cli.status import status
from penstock.cli.topics import topics
from penstock.cli.topology import topology
from penstock.cli.version import version
from penstock.errors import PenstockError
from penstock.masking import scrubbed


class Commands(TyperGroup):
    """A group of commands whose own errors are shown as a message, not as a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except PenstockError as error:
            print(f"penstock: {scrubbed(str(error))}", file=sys.stderr)
            raise typer.Exit(exit_code(error)) from None


app = typer.Typer(
    cls=Commands,
    help="Kafka Streams for Python, run on Apache Spark.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (init, run, status, reset, demo, dev, topology, produce, consume, query, doctor, config, bench, version):
    app.command()(command)
app.add_typer(topics, name="topics")
app.add_typer(dead_letters, name="dead-letters")
