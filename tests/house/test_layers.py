"""Imports point one way, and each fenced library stays in its room."""

import ast
import re
import subprocess
import sys
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
    "setting_checks",
    "setting_types",
    "windows",
    "extractors",
    "strict",
    "schedule",
    "watermark",
    "masking",
    "files",
    "freed_memory",
    "distribution",
    "log_lines",
}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "clock": set(),
    "record": {"errors"},
    "durations": {"errors"},
    "extractors": {"errors"},
    "config": {"errors", "masking", "setting_checks"},
    "setting_checks": {"errors"},
    "setting_types": set(),
    "masking": set(),
    "log_lines": {"masking"},
    "files": {"errors"},
    "freed_memory": set(),
    "distribution": set(),
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
    "protocol": GROUND | {"state", "log", "topology", "plan"},
    "lane": GROUND | {"serde", "batch", "state", "log", "processor", "operators", "topology", "plan", "protocol"},
    "query": GROUND | {"serde", "state", "topology", "plan", "protocol", "lane"},
    "executor": GROUND | {"serde", "state", "log", "processor", "topology", "plan", "protocol", "lane", "dev"},
    "engine": GROUND
    | {"serde", "state", "log", "processor", "operators", "topology", "plan", "protocol", "executor", "dev", "query"},
    "admin": GROUND | {"serde", "state", "log", "topology", "plan", "protocol", "query", "engine", "dead_letters"},
    "dead_letters": GROUND | {"log", "protocol"},
    "sql": GROUND
    | {
        "native",
        "serde",
        "batch",
        "state",
        "log",
        "processor",
        "operators",
        "topology",
        "plan",
        "protocol",
        "lane",
        "engine",
        "executor",
        "query",
    },
    "notebook": GROUND,
    "app": GROUND | {"notebook", "topology", "engine", "executor", "query", "admin"},
    "dev": GROUND,
    "testing": GROUND
    | {
        "serde",
        "state",
        "log",
        "processor",
        "topology",
        "plan",
        "protocol",
        "lane",
        "dev",
        "engine",
        "executor",
        "query",
    },
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
        "dsl",
        "testing",
        "dev",
        "front",
        "engine",
        "executor",
        "query",
        "admin",
        "dead_letters",
        "sql",
        "app",
    },
    "front": GROUND | {"serde", "state", "log", "processor", "operators", "topology", "dsl", "app", "query"},
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
    }
    | {"serde/registry/client.py"},
    "pytest": {"testing/broker.py", "testing/registry.py", "testing/spark.py"},
    "pyspark": {
        "dev/jars.py",
        "sql/spark_source.py",
        "engine/executor/program.py",
        *(f"engine/executor/{name}.py" for name in ("spark_fast", "spark_session")),
    },
    "py4j": {f"engine/executor/{name}.py" for name in ("spark_fast", "spark_session")},
    "starlette": {f"admin/{path.name}" for path in (SRC / "admin").glob("*.py")},
    "opentelemetry": {"engine/tracing.py"},
    "uvicorn": {"admin/server.py", "admin/connection.py"},
}
FILES = sorted(SRC.rglob("*.py"))


def room_of(path: Path) -> str:
    relative = path.relative_to(SRC)
    if relative == Path("__init__.py"):
        return "front"
    if relative.parts[:2] == ("engine", "executor"):
        return "executor"
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports_of(path: Path, *, guarded: bool = False, later: bool = True) -> set[str]:
    """The full names that a file imports; those for type checking make no cycle, and are left out unless ``guarded``.

    ``later``: those, too, that a function imports when it is called.
    """
    tree = ast.parse(path.read_text())
    functions = () if later else (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    left_out = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not guarded
        for inner in ast.walk(node)
    } | {id(inner) for function in functions for inner in ast.walk(function)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_no_file_imports_itself_by_way_of_others():
    """When it is loaded; what a function imports as it is called makes no cycle, nor what is there for type checking."""
    files = {_module(path): path for path in FILES}
    waiting = {module: _loads(path, files) - {module} for module, path in files.items()}
    while ready := {module for module, needed in waiting.items() if not needed & waiting.keys()}:
        for module in ready:
            del waiting[module]
    assert sorted(waiting) == []  # what is left is in a cycle, or above one


def _module(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if path.stem == "__init__" else parts)


def _loads(path: Path, files: dict[str, Path]) -> set[str]:
    """Return the modules of ours that a file loads when it is loaded itself."""
    names = (name for name in imports_of(path, later=False) if name.startswith("penstock"))
    return {name if name in files else name.rpartition(".")[0] for name in names}


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for name in imports_of(path):
        parts = name.split(".")
        if parts[:3] == ["penstock", "engine", "executor"]:
            rooms.add("executor")
        elif parts[0] == "penstock":
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


#: what of the driver is a worker in its own process: what runs lanes here, what knows how lanes keep their shards, to read them, and
#: what brings up a copy of its own
WORKERS_IN_THIS_PROCESS = {
    "engine/executor/in_process_jobs.py",
    "query/shards.py",
    "query/service.py",
    "query/followed_shards.py",
}


def test_lanes_run_in_workers_only():
    """Who may import ``lane/``, for type checking too: the files above, and the executors ``lane.entry`` alone.

    The functions of ``lane.entry`` travel to the workers by name; nothing calls them here. Everything else that both sides know is in
    ``protocol/``.
    """
    for path in FILES:
        name = path.relative_to(SRC).as_posix()
        if not name.startswith(("engine/", "query/", "app.py", "cli/")) or name in WORKERS_IN_THIS_PROCESS:
            continue
        shipped = {"penstock.lane.entry"} if name.startswith("engine/executor/") else set()
        found = {each for each in imports_of(path, guarded=True) if each.startswith("penstock.lane")}
        assert found <= shipped, name


def test_a_worker_imports_nothing_of_the_driver():
    code = "import sys, penstock.lane.entry; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rooms = ("penstock.engine", "penstock.app", "penstock.cli", "penstock.testing", "pyspark", "py4j")
    assert [name for name in run.stdout.split() if name.startswith(rooms)] == []


def test_the_protocol_of_kafka_is_pure():
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
