"""Find a topology by its address: ``module:name`` or ``file.py:name``.

The name is that of a StreamsBuilder, of a Topology, or of a function without arguments that returns one of them. Without
a name, the one builder or topology of the module is taken.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.dsl.builder import StreamsBuilder
from penstock.errors import PenstockError, nearest
from penstock.topology.topology import Topology


class NotLocated(PenstockError):
    """There is no topology at that address."""


def locate(address: str, optimize: tuple[str, ...] = ()) -> Topology:
    """Return the topology at an address, built if need be.

    >>> locate("penstock.cli.demo_topology:topology").describe().splitlines()[0]
    'Topologies:'
    """
    place, _, name = address.partition(":")
    module = load_module(place)
    found = attribute(module, name.removesuffix("()")) if name else only_topology(module)
    return built(found, address, optimize)


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
    """Say what went wrong while the user's module was imported, with the line of it."""
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


def only_topology(module: ModuleType) -> Any:
    """Return the one builder or topology of a module."""
    names = [name for name, value in vars(module).items() if isinstance(value, StreamsBuilder | Topology)]
    if len(names) != 1:
        has = f"has several ({', '.join(names)})" if names else "has no builder and no topology"
        raise NotLocated(f"{module.__name__} {has}: name what is meant, {module.__name__}:<name>")
    return getattr(module, names[0])


def built(found: Any, address: str, optimize: tuple[str, ...]) -> Topology:
    """Turn a builder, a topology or a function that makes one into a topology."""
    if callable(found) and not isinstance(found, StreamsBuilder | Topology):
        found = _called(found, address)
    if isinstance(found, StreamsBuilder):
        return found.build(optimize=optimize)
    if not isinstance(found, Topology):
        raise NotLocated(
            f"{address} is {found!r}: it must be a StreamsBuilder, a Topology, "
            "or a function without arguments that returns one"
        )
    if optimize:
        raise NotLocated(f"{address} is built already, so it cannot be optimized: name its StreamsBuilder instead")
    return found


def _called(function: Any, address: str) -> Any:
    import inspect

    try:
        inspect.signature(function).bind()
    except TypeError:
        raise NotLocated(f"{address} is a function that needs arguments: give one without") from None
    return function()
