"""The command line of the benchmarks. ``.ci/run`` has their quick form."""

import importlib
import json

import pytest
from bench.columns import COLUMNS
from bench.command import Outcome, Plan, as_data, save, together
from bench.markdown import BEGIN, END
from bench.registry import WORKLOADS
from bench.runs import Run
from bench.workloads.base import Size
from typer.testing import CliRunner

from bench import markdown, pictures
from penstock.cli.app import app

RUN = CliRunner()


@pytest.fixture
def data():
    """Results of two systems over two workloads."""
    outcome = Outcome(Plan(rounds=1), sizes={"count-sum": Size(1_000), "latency-1k": Size(5_000)})
    for system, figure in (("java", 1000.0), ("penstock", 3000.0)):
        for name in outcome.sizes:
            figures = dict.fromkeys(COLUMNS[WORKLOADS[name].kind].values(), figure)
            outcome.runs.append(Run(name, system, system.title(), 0, figures))
    outcome.skipped["count-sum", "quixstreams"] = "pip could not install it"
    return as_data(outcome)


def test_tables_are_written_into_the_page_between_the_marks(data, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n{BEGIN}\nold\n{END}\nrest\n")
    markdown.save(data, page)
    markdown.save(data, page)
    text = page.read_text()
    assert text.startswith("# Title\n")
    assert text.endswith(f"{END}\nrest\n")
    assert "old" not in text
    assert text.count("### count-sum") == 1
    assert "**penstock/java**: steady 3.00." in text
    assert "| Java | 1,000 |" in text
    assert "quixstreams: skipped, pip could not install it" in text


def test_every_workload_has_a_picture_and_the_ratios_have_one(data, tmp_path):
    names = {path.name for path in pictures.save(data, tmp_path)}
    assert names == {"count-sum.svg", "latency-1k.svg", "overview.svg"}
    assert "3,000 records/s" in (tmp_path / "count-sum.svg").read_text()


def test_saved_results_of_two_commands_are_written_as_of_one(data, tmp_path):
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    save(data, first)
    save(data | {"workloads": {"count-sum": data["workloads"]["count-sum"]}, "runs": data["runs"][:1]}, second)
    both = together([first, second])
    assert list(both["workloads"]) == ["count-sum", "latency-1k"]
    assert [(run["workload"], run["system"]) for run in both["runs"]] == [
        ("latency-1k", "java"),
        ("latency-1k", "penstock"),
        ("count-sum", "java"),
    ]


def test_saved_results_are_written_without_running_anything(data, tmp_path):
    save(data, tmp_path / "all.json")
    command = ["bench", "--from", str(tmp_path / "all.json"), "--markdown", str(tmp_path / "page.md")]
    done = RUN.invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "### latency-1k" in (tmp_path / "page.md").read_text()


def test_the_workloads_and_systems_are_listed():
    done = RUN.invoke(app, ["bench", "--list"])
    assert done.exit_code == 0
    assert "foreign-key-join" in done.output
    assert "spark-tws" in done.output
    listed = json.loads(RUN.invoke(app, ["bench", "--list", "--json"]).output)
    assert listed["workloads"].keys() == WORKLOADS.keys()
    assert "spark-tws" in listed["systems"]


def test_what_was_found_is_printed_or_written_as_json(data, tmp_path):
    save(data, tmp_path / "all.json")
    done = RUN.invoke(app, ["bench", "--from", str(tmp_path / "all.json"), "--json"])
    assert json.loads(done.output)["runs"] == data["runs"]


def test_an_unknown_workload_is_wrong_use():
    done = RUN.invoke(app, ["bench", "flink"])
    assert done.exit_code == 2


def test_without_the_sources_the_command_says_where_they_are(monkeypatch, tmp_path, capsys):
    module = importlib.import_module("penstock.cli.bench")
    monkeypatch.setattr(module, "CHECKOUT", tmp_path)

    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name="bench")

    monkeypatch.setattr(module, "import_module", missing)
    done = RUN.invoke(app, ["bench", "--list"])
    assert done.exit_code == 2
    assert "folder bench/ of its sources" in capsys.readouterr().err + done.output + done.stderr
