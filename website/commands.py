"""The reference of the command line: every command with its arguments and options, as `--help` has them."""

from collections.abc import Iterator
from typing import Any

import typer

from penstock.cli.app import app


def pages() -> dict[str, str]:
    """Return the page."""
    root = typer.main.get_command(app)
    lines = ["# Commands", "", "Generated from the commands themselves: `penstock COMMAND --help` says the same.", ""]
    for path, command in walk(root, ("penstock",)):
        lines += described(path, command)
    return {"reference/commands.md": "\n".join(lines)}


def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command below a group."""
    for name, found in sorted(getattr(command, "commands", {}).items()):
        if getattr(found, "commands", None):
            yield from walk(found, (*path, name))
        else:
            yield (*path, name), found


def described(path: tuple[str, ...], command: Any) -> list[str]:
    """Return what the page says of a command."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    names = " ".join(p.name.upper() if p.required else f"[{p.name.upper()}]" for p in arguments)
    lines = [f"## {' '.join(path)}", "", (command.help or "").replace("\f", "").strip(), ""]
    lines += ["```console", " ".join(filter(None, [*path, "[OPTIONS]" if options else "", names])), "```", ""]
    if command.params:
        lines += ["| argument or option | meaning | default |", "| --- | --- | --- |"]
        lines += [row(p) for p in (*arguments, *options)]
    return [*lines, ""]


def row(parameter: Any) -> str:
    """Return the row of an argument or an option."""
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    shown = parameter.name.upper() if parameter.param_type_name == "argument" else names
    given = "" if parameter.default in (None, False, ()) or callable(parameter.default) else f"`{parameter.default}`"
    meaning = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
    return f"| `{shown}` | {meaning} | {given} |"
