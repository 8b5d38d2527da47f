"""Imports point one way, and each fenced library stays in its room."""

import ast
import re
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "penstock"

# Each room may import the rooms named beside it, and itself. "top" are the single files of the ground floor.
GROUND = {
    "errors",
    "record",
    "clock",
    "durations",
    "config",
    "windows",
    "extractors",
    "strict",
    "schedule",
    "watermark",
    "masking",
    "files",
}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "clock": set(),
    "record": {"errors"},
    "durations": {"errors"},
    "extractors": {"errors"},
    "config": {"errors", "masking"},
    "masking": set(),
    "files": {"errors"},
    "strict": {"errors"},
    "cron": {"errors"},
    "schedule": {"errors", "durations", "cron"},
    "watermark": {"errors", "durations"},
    "windows": {"errors", "durations", "strict"},
    "native": set(),
    "serde": GROUND | {"native"},
    "batch": GROUND | {"native", "serde"},
    "state": GROUND | {"native", "serde", "batch"},
    "kafka_wire": {"native"},
    "log": GROUND | {"native", "serde", "kafka_wire"},
    "processor": GROUND | {"serde", "batch", "state"},
    "operators": GROUND | {"serde", "batch", "state", "log", "processor"},
    "topology": GROUND | {"serde", "batch", "state", "log", "processor", "operators"},
    "dsl": GROUND | {"serde", "batch", "state", "log", "processor", "operators", "topology"},
    "kernels": GROUND | {"serde", "batch", "state", "log", "processor", "operators", "topology"},
    "plan": GROUND | {"serde", "batch", "state", "log", "processor", "operators", "topology", "kernels"},
    "lane": GROUND | {"serde", "batch", "state", "log", "processor", "operators", "topology", "plan"},
    "engine": GROUND | {"serde", "batch", "state", "log", "processor", "operators", "topology", "plan", "lane", "dev"},
    "query": GROUND
    | {"native", "serde", "batch", "state", "log", "processor", "operators", "topology", "plan", "lane", "engine"},
    "sql": {"query"},
    "app": GROUND | {"topology", "engine"},
    "dev": GROUND,
    "testing": GROUND
    | {"serde", "batch", "state", "log", "processor", "operators", "topology", "plan", "lane", "dev", "engine"},
    "cli": GROUND
    | {
        "native",
        "serde",
        "state",
        "log",
        "processor",
        "operators",
        "topology",
        "plan",
        "lane",
        "dsl",
        "testing",
        "dev",
        "front",
        "engine",
        "query",
        "app",
    },
    "front": GROUND | {"serde", "state", "log", "processor", "operators", "topology", "dsl", "app"},
}
FENCES = {
    "lmdb": {"state/lmdb_store.py"},
    "time": {"clock.py", "kafka_wire/net/waiting.py"},
    "confluent_kafka": {
        f"log/{name}.py"
        for name in (
            "admin",
            "assigned",
            "failures",
            "groups",
            "producer",
            "ranges",
            "reader",
            "rows",
            "partition_queue",
        )
    },
    "pytest": {"testing/broker.py", "testing/spark.py"},
    "pyspark": {"dev/jars.py", "engine/spark.py", "query/spark_source.py"},
    "starlette": set(),
}
FILES = sorted(SRC.rglob("*.py"))


def room_of(path: Path) -> str:
    relative = path.relative_to(SRC)
    if relative == Path("__init__.py"):
        return "front"
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports_of(path: Path) -> set[str]:
    """The full names that a file imports, those for type checking left out: they make no cycle."""
    tree = ast.parse(path.read_text())
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "penstock":
            rooms.add(parts[1] if len(parts) > 1 and parts[1] in ALLOWED else "front")
    return rooms


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_imports_point_one_way(path):
    room = room_of(path)
    wrong = imported_rooms(path) - ALLOWED[room] - {room}
    assert not wrong, f"{room} must not import {sorted(wrong)}"


@pytest.mark.parametrize("library", FENCES)
def test_fenced_libraries_stay_in_their_room(library):
    users = {
        str(path.relative_to(SRC)) for path in FILES if any(name.split(".")[0] == library for name in imports_of(path))
    }
    assert users <= FENCES[library]


@pytest.mark.parametrize("leaf", ["native", "kafka_wire"])
def test_leaves_import_nothing_of_the_house_above_them(leaf):
    """For type checking neither: they could be packages of their own."""
    found = set()
    for path in (SRC / leaf).rglob("*.py*"):
        if path.suffix in {".py", ".pyi"}:
            found |= set(re.findall(r"^\s*(?:from|import) penstock(?:\.(\w+))?", path.read_text(), re.MULTILINE))
    assert found <= {"native", leaf}


def test_the_protocol_is_pure():
    allowed = ("penstock.kafka_wire.protocol", "penstock.kafka_wire.settings", "penstock.native")
    for path in (SRC / "kafka_wire" / "protocol").glob("*.py"):
        imported = imports_of(path)
        assert not [name for name in imported if name.startswith("penstock") and not name.startswith(allowed)], path
        assert not {name.split(".")[0] for name in imported} & {"socket", "ssl", "threading", "time", "os"}, path


def test_no_file_names_this_machine_or_a_registry():
    root = SRC.parents[1]
    words = ("repo1." + "maven", "pypi." + "org", "registry." + "npmjs", "/" + "root/", "/" + "work/")
    for folder in ("src", "tests", "bench", "docs", "examples", ".ci"):
        for path in (root / folder).rglob("*"):
            if (
                path.is_file()
                and path.suffix in {".py", ".md", ".toml", ".txt", ".json", ".xml", ""}
                and "__pycache__" not in path.parts
            ):
                text = path.read_text(errors="ignore")
                assert not [word for word in words if word in text], path
