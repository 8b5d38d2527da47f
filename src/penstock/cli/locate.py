"""Find a program by its address: ``module:name`` or ``file.py:name``.

The name is that of an App, a StreamsBuilder, a Topology, or of a function without arguments that returns one of them. Without
a name, the one App of the module is taken, else its one builder or topology.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.cli.exits import WrongUse
from penstock.dsl.builder import StreamsBuilder
from penstock.errors import PenstockError, nearest
from penstock.topology.topology import Topology

if TYPE_CHECKING:
    from penstock.app import App

#: what a program may be
Program: TypeAlias = "App | StreamsBuilder | Topology"


class NotLocated(WrongUse):
    """There is no program at that address."""


def locate_program(address: str) -> Program:
    """Return what is at an address: an App, or what one can be made of."""
    place, _, name = address.partition(":")
    module = load_module(place)
    found = attribute(module, name.removesuffix("()")) if name else only_program(module)
    if callable(found) and not is_program(found):
        found = _called(found, address)
    if not is_program(found):
        raise NotLocated(
            f"{address} is {found!r}: it must be a StreamsBuilder, a Topology, "
            "or a function without arguments that returns one, or an App"
        )
    program: Program = found
    return program


def locate(address: str, optimize: tuple[str, ...] = ()) -> Topology:
    """Return the topology at an address, built if need be.

    >>> locate("penstock.cli.demo_topology:topology").describe().splitlines()[0]
    'Topologies:'
    """
    found = locate_program(address)
    if isinstance(found, StreamsBuilder):
        return found.build(optimize=optimize)
    if optimize:
        raise NotLocated(f"{address} is built already, so it cannot be optimized: name its StreamsBuilder instead")
    return found if isinstance(found, Topology) else found.topology


def is_program(found: Any) -> bool:
    """Return whether this is something that can be run."""
    return isinstance(found, StreamsBuilder | Topology) or is_app(found)


def is_app(found: Any) -> bool:
    """Return whether this is an App. Who has one has loaded its module: it is not loaded here to find that there is none."""
    module = sys.modules.get("penstock.app")
    return module is not None and isinstance(found, module.App)


def load_module(place: str) -> ModuleType:
    """Import a module by its name, or a file by its path; the current folder counts as one to import from."""
    path = Path(place)
    try:
        if path.suffix == ".py":
            return _load_file(path)
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.insert(0, here)
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and place.startswith(error.name):
            raise NotLocated(
                f"there is no module {error.name!r}: give module:name (of a module that can be imported from here) "
                "or path/to/file.py:name"
            ) from None
        raise _broken(place, error) from error
    except PenstockError:
        raise
    except Exception as error:
        raise _broken(place, error) from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise NotLocated(f"there is no file {str(path)!r}")
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _broken(place: str, error: Exception) -> NotLocated:
    """Explain what went wrong while the user's module was imported, with the line of it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return NotLocated(f"{place} could not be imported: {type(error).__name__}: {error} ({last.filename}:{last.lineno})")


def attribute(module: ModuleType, name: str) -> Any:
    """Return what a module calls by this name, which may have dots."""
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise NotLocated(f"{module.__name__} has no {name!r}{nearest(part, dir(found))}")
        found = getattr(found, part)
    return found


def only_program(module: ModuleType) -> Any:
    """Return the one App of a module, else its one builder or topology."""
    programs = {name: value for name, value in vars(module).items() if is_program(value)}
    names = [name for name, value in programs.items() if is_app(value)] or list(programs)
    if len(names) != 1:
        has = f"has several ({', '.join(names)})" if names else "has no builder and no topology, nor an App"
        raise NotLocated(f"{module.__name__} {has}: name what is meant, {module.__name__}:<name>")
    return programs[names[0]]


def _called(function: Any, address: str) -> Any:
    import inspect

    try:
        inspect.signature(function).bind()
    except TypeError:
        raise NotLocated(f"{address} is a function that needs arguments: give one without") from None
    return function()
