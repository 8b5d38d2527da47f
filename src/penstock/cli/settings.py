"""``penstock config``: the table of settings, with the values that the environment and pyproject.toml give them here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.output import JsonOption, console, print_json, table_of
from penstock.masking import HIDDEN, masked

SchemaOption = Annotated[bool, typer.Option("--schema", help="Print what [tool.penstock] may hold, as JSON Schema.")]


def config(as_json: JsonOption = False, schema: SchemaOption = False) -> None:
    """Show every setting: name, default, meaning, and its value in this folder (environment, pyproject.toml)."""
    if schema:
        from penstock.config import json_schema

        print_json(json_schema())
        return
    rows = settings_here(Path("pyproject.toml"))
    if as_json:
        print_json(rows)
        return
    from rich.text import Text

    shown = [
        (row["name"], Text(repr(row["value"]) if row["value"] != row["default"] else "", "bold"), repr(row["default"]), row["meaning"])
        for row in rows
    ]  # fmt: skip
    out = console()
    out.print(table_of(("setting", "value", "default", "meaning"), shown))
    out.print("Set one as an argument of App, as PENSTOCK_<NAME> in the environment, or below [tool.penstock] in pyproject.toml.",
              markup=False)  # fmt: skip


def settings_here(pyproject: Path, environ: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return a row for each setting, with its value as this environment and this file give it; secrets are hidden.

    >>> rows = settings_here(Path("none"), environ={"PENSTOCK_SHARDS": "8"})
    >>> [row["value"] for row in rows if row["name"] == "shards"]
    [8]
    """
    from penstock.config import SETTINGS, load

    values = load({}, environ=environ, pyproject=pyproject)
    return [
        {
            "name": row.name,
            "environment": f"PENSTOCK_{row.name.upper()}",
            "type": row.kind,
            "default": row.default,
            "value": _shown(row.name, values[row.name]),
            "group": row.heading,
            "meaning": row.meaning,
        }
        for row in SETTINGS
    ]


def _shown(name: str, value: Any) -> Any:
    """Return a value as it may be shown; of values of the user's own nobody knows which are secrets."""
    return dict.fromkeys(value, HIDDEN) if name == "user_config" else masked(value)
