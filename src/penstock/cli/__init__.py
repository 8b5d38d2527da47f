"""The command line: ``penstock``. One file per command group; a command imports what it needs when it is called."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command that the arguments name (the entry point of the installed script)."""
    from penstock.cli.app import app

    app(prog_name="penstock")
