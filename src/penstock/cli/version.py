"""``penstock version``."""

from __future__ import annotations

from penstock.cli.output import JsonOption, print_json


def version(as_json: JsonOption = False) -> None:
    """Print the version of Penstock."""
    import platform
    from importlib.metadata import version as version_of

    found = version_of("penstock")
    if as_json:
        print_json({"penstock": found, "python": platform.python_version()})
    else:
        print(f"penstock {found}")
