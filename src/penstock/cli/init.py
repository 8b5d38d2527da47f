"""``penstock init``: a project to begin with: an application, its test, and what builds and describes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.exits import WrongUse
from penstock.cli.output import JsonOption, print_json


class NotMade(WrongUse):
    """The project cannot be made there, or not by that name."""


def init(
    folder: Annotated[Path, typer.Argument(help="Folder of the project; it is made if need be.")] = Path("."),
    name: Annotated[
        str | None, typer.Option(help="Name of the project, and its application id. Default: that of the folder.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a project: an application, a test that needs no broker, pyproject.toml, a Containerfile. Nothing is overwritten."""
    from penstock.cli.init_templates import project_files

    chosen = project_name(name, folder)
    files = project_files(chosen, module_name(chosen))
    write_new(folder, files)
    if as_json:
        print_json({"name": chosen, "folder": str(folder), "files": list(files)})
    else:
        typer.echo("\n".join([*(str(folder / path) for path in files), f"next: see {folder / 'README.md'}"]))


def project_name(given: str | None, folder: Path) -> str:
    """Return the name of a project: the one given, else one made of the folder's.

    >>> project_name(None, Path("Word Count")), project_name("shop", Path("."))
    ('word-count', 'shop')
    """
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-") if given is None else given
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise NotMade(
            f"{name!r} cannot name a project: give --name with lower-case letters, digits and single hyphens, "
            "a letter first, as in word-count"
        )
    return name


def module_name(name: str) -> str:
    """Return the name of the application's module, one that no other module has.

    >>> module_name("word-count"), module_name("json")
    ('word_count', 'json_app')
    """
    import keyword
    import sys

    module = name.replace("-", "_")
    taken = keyword.iskeyword(module) or module in sys.stdlib_module_names or module in ("penstock", "pytest", "tests")
    return f"{module}_app" if taken else module


def write_new(folder: Path, files: dict[str, str]) -> None:
    """Write files that do not exist yet; if one does, write none."""
    there = [path for path in files if (folder / path).exists() or (folder / path).is_symlink()]
    if there:
        raise NotMade(
            f"{folder} has {', '.join(there)} already, and nothing is overwritten: name another folder "
            "(penstock init FOLDER), or move these files away"
        )
    try:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            with (folder / path).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise NotMade(f"{folder} cannot be written to ({error}): name another folder, penstock init FOLDER") from None
