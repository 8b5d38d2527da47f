"""``penstock version``."""

from __future__ import annotations

from penstock.cli.output import JsonOption, print_json

#: the name to install it by; what is imported and called is ``penstock``
DISTRIBUTION = "penstock-streams"


def version(as_json: JsonOption = False) -> None:
    """Print the version of Penstock."""
    import platform
    from importlib.metadata import version as version_of

    found = version_of(DISTRIBUTION)
    if as_json:
        print_json({"penstock": found, "python": platform.python_version()})
    else:
        print(f"penstock {found}")
