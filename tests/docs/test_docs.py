"""Every example in the documentation runs, and shows what it says."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.admin.metric_table import METRICS
from penstock.testing import InputTopic, OutputTopic, TopologyTestDriver

ROOT = Path(__file__).parents[2]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
#: those that end by themselves; the others are applications, and are run where there is a broker
PRINTING = [path for path in EXAMPLES if "Prints::" in path.read_text()]
MODULES = sorted(module.name for module in pkgutil.walk_packages(penstock.__path__, "penstock."))


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_of_a_document_run(path):
    failed, _ = doctest.testfile(str(path), module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8")
    assert failed == 0


class WrappedToo(doctest.DocTestFinder):
    """Finds the examples of methods that check their options, too: they are wrapped, in another module."""

    def _from_module(self, module, object):
        return super()._from_module(module, inspect.unwrap(object) if callable(object) else object)


class Remember(penstock.Processor):
    def process(self, record):
        self.context.store("seen").put(record.key, record.value)


class Double(penstock.FixedKeyProcessor):
    def process(self, record):
        self.context.forward(record.with_value(record.value * 2))


def cast() -> dict[str, Any]:
    """What the examples of the DSL's methods speak of."""
    builder = penstock.StreamsBuilder()
    stream, table = builder.stream("orders"), builder.table("users")
    return {
        **{name: getattr(penstock, name) for name in penstock.__all__},
        "builder": builder,
        "stream": stream,
        "other": builder.stream("payments"),
        "table": table,
        "accounts": builder.table("accounts"),
        "grouped": stream.group_by_key(),
        "windowed": stream.group_by_key().windowed_by(penstock.TimeWindows(60_000)),
        "by_country": table.group_by(lambda key, user: (user["country"], user)),
        "Remember": Remember,
        "Double": Double,
    }


@pytest.mark.parametrize("name", ["penstock", *MODULES])
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in WrappedToo().find(
        module, name, module, extraglobs=cast() if name.startswith("penstock.dsl.") else None
    ):
        runner.run(test)
    assert runner.summarize().failed == 0


@pytest.mark.parametrize("path", PRINTING, ids=lambda path: path.name)
def test_an_example_runs_and_prints_what_its_docstring_shows(path):
    run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    shown = str(ast.get_docstring(ast.parse(path.read_text()))).partition("Prints::\n")[2]
    wanted = [line.strip() for line in shown.splitlines() if line.strip()]
    assert run.stdout.split("\n")[:-1] == wanted


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path not in PRINTING], ids=lambda path: path.name)
def test_an_example_that_prints_nothing_is_an_application(path):
    assert isinstance(runpy.run_path(str(path), run_name="example")["app"], penstock.App)


def test_the_first_app_of_the_readme_is_the_example():
    text = (ROOT / "examples" / "word_count.py").read_text()
    program = text.partition('"""\n\n')[2].rstrip()
    assert program.splitlines()[0].startswith("from penstock import")
    assert program in (ROOT / "README.md").read_text()


PUBLIC = [
    penstock.StreamsBuilder, penstock.KStream, penstock.KTable, penstock.KGroupedStream, penstock.KGroupedTable,
    penstock.CogroupedKStream, penstock.WindowedKStream, penstock.Topology, penstock.Stores, penstock.Serdes,
    penstock.Suppressed, penstock.Buffer, penstock.ProcessorContext, penstock.TimestampExtractor,
    TopologyTestDriver, InputTopic, OutputTopic,
]  # fmt: skip
#: what tools and other rooms use, not a program
NOT_FOR_PROGRAMS = {
    "nodes", "order", "stores", "global_stores", "internal_topics", "copartitions", "node", "parents", "children", "stores_of",
    "subtopologies", "add", "add_global", "add_internal_topic", "copartition", "replace_store", "check_partitions",
    "timer_service", "bounded", "pipe_raw", "all_output", "store_contents", "close", "name", "records", "shut_down", "logged", "wait",
}  # fmt: skip


@pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)
def test_the_guide_has_every_method(cls):
    guide = (ROOT / "docs" / "guide.md").read_text()
    names = {name for name in dir(cls) if not name.startswith("_")} - NOT_FOR_PROGRAMS
    missing = sorted(name for name in names if not re.search(rf"\b{name}\b", guide))
    assert missing == []


def test_every_difference_names_a_test_that_exists():
    rows = [line for line in (ROOT / "docs" / "differences.md").read_text().splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith(("| what", "| ---"))]
    for row in rows:
        tests = re.findall(r"`([a-z_/]+\.py)::(\w+)`", row)
        assert tests, row
        for path, name in tests:
            assert f"def {name}(" in (ROOT / "tests" / path).read_text(), f"{path}::{name}"


def test_the_walk_names_files_that_exist():
    named = re.findall(r"`([a-z_/]+\.py)`", (ROOT / "docs" / "walk.md").read_text())
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "src" / "penstock" / name).exists()] == []


def test_metrics_that_documents_name_exist():
    known = {f"penstock_{metric.name}" for metric in METRICS}
    for path in DOCS:
        named = set(re.findall(r"`(penstock_[a-z_]+)`", path.read_text())) - {"penstock_user_"}
        own = {name for name in named if name.startswith("penstock_user_")}
        assert named - own <= known, path.name


def test_links_between_documents_lead_somewhere():
    for path in DOCS:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
            there = path.parent / target
            generated = there.resolve().is_relative_to(ROOT / "docs" / "reference")  # tests/docs/test_site.py has them
            assert target.startswith("http") or generated or there.exists(), f"{path.name}: {target}"
