"""The commands, as a user calls them: output, JSON, exit codes, and messages without tracebacks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.config import SETTINGS

RUNNER = CliRunner()


def run(*arguments: str, code: int = 0, **environment: str):
    result = RUNNER.invoke(app, list(arguments), env=environment)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program in it, the current one."""
    (tmp_path / "shop_for_cli_tests.py").write_text(
        "from penstock import StreamsBuilder, Topology\n"
        "builder = StreamsBuilder()\n"
        "builder.table('users', store='users').to_stream().to('changes')\n"
        "def make():\n    return builder.build()\n"
        "def needs(argument):\n    return builder\n"
        "number = 5\n"
        "def app():\n    from penstock import App\n    return App(builder, application_id='shop')\n"
        "class Holder:\n    inner = builder\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("shop_for_cli_tests", None)


# topology


@pytest.mark.parametrize(
    "address",
    [
        "shop_for_cli_tests:builder",
        "shop_for_cli_tests:make",
        "shop_for_cli_tests:make()",
        "shop_for_cli_tests:app",
        "shop_for_cli_tests:Holder.inner",
        "shop_for_cli_tests",
        "shop_for_cli_tests.py:builder",
        "./shop_for_cli_tests.py",
    ],
)
def test_topology_is_found_by_module_or_file_and_by_builder_or_function(program, address):
    lines = run("topology", address).stdout.splitlines()
    assert lines[0] == "Topologies:"
    assert any("topics: [users]" in line for line in lines)


def test_text_is_exactly_what_describe_gives(program):
    from penstock import StreamsBuilder

    builder = StreamsBuilder()
    builder.table("users", store="users").to_stream().to("changes")
    assert run("topology", "shop_for_cli_tests:builder").stdout == builder.build().describe()


def test_topology_has_four_forms(program):
    address = "shop_for_cli_tests:builder"
    assert run("topology", address, "--format", "mermaid").stdout.startswith("flowchart LR")
    assert run("topology", address, "--format", "svg").stdout.startswith("<svg ")
    data = json.loads(run("topology", address, "--format", "json").stdout)
    assert [store["name"] for store in data["stores"]] == ["users"]
    assert json.loads(run("topology", address, "--json").stdout) == data


def test_output_goes_to_a_file(program):
    assert run("topology", "shop_for_cli_tests:builder", "-f", "svg", "-o", "shop.svg").stdout == ""
    assert (program / "shop.svg").read_text().startswith("<svg ")


def test_optimize_is_that_of_build(program):
    data = json.loads(run("topology", "shop_for_cli_tests:builder", "--json", "--optimize", "all").stdout)
    assert [store["changelog"] for store in data["stores"]] == ["users"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_module_here:x"], "there is no module 'no_such_module_here'"),
        (["no_such_file.py:x"], "there is no file"),
        (["shop_for_cli_tests:bilder"], "did you mean 'builder'?"),
        (["shop_for_cli_tests:number"], "it must be a StreamsBuilder, a Topology, or a function"),
        (["shop_for_cli_tests:needs"], "needs arguments"),
        (["shop_for_cli_tests:make", "--optimize", "all"], "is built already"),
        (["shop_for_cli_tests:app", "--optimize", "all"], "is built already"),
        (["shop_for_cli_tests:builder", "--optimize", "al"], "there is no optimisation 'al'"),
        (["json"], "has no builder and no topology"),
    ],
)
def test_wrong_addresses_are_explained(program, arguments, message):
    assert message in run("topology", *arguments, code=2).stderr


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("import no_such_library_here\n", "no_such_library_here"),
        ("from penstock import StreamsBuilder\nStreamsBuilder().stream(5)\n", ""),
    ],
)
def test_a_program_that_cannot_be_imported_is_explained_with_its_line(tmp_path, monkeypatch, source, message):
    (tmp_path / "broken_for_cli_tests.py").write_text(source)
    monkeypatch.setattr(sys, "path", [*sys.path])
    told = run("topology", f"{tmp_path}/broken_for_cli_tests.py:builder", code=2).stderr
    assert told.startswith("penstock: ")
    assert message in told


def test_wrong_use_of_a_command_has_exit_code_2():
    assert "Missing argument" in run("topology", code=2).output
    run("topology", "x:y", "--format", "png", code=2)
    run("demo", "--records", "0", code=2)
    run("dance", code=2)


# config, version


def test_config_lists_every_setting_with_its_value_and_hides_secrets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.penstock]\nlanes = 3\n[tool.penstock.kafka]\n"sasl.username" = "me"\n"sasl.password" = "hush"\n'
    )
    rows = {row["name"]: row for row in json.loads(run("config", "--json", PENSTOCK_SHARDS="8").stdout)}
    assert list(rows) == [setting.name for setting in SETTINGS]
    assert (rows["lanes"]["value"], rows["shards"]["value"]) == (3, 8)
    assert rows["kafka"]["value"] == {"sasl.username": "me", "sasl.password": "***"}
    text = run("config").stdout
    assert "commit_interval_ms" in text
    assert "hush" not in text


def test_config_explains_a_bad_value():
    assert "lanes='many' (from PENSTOCK_LANES)" in run("config", code=2, PENSTOCK_LANES="many").stderr


def test_version_is_that_of_the_package():
    from importlib.metadata import version

    assert run("version").stdout == f"penstock {version('penstock-streams')}\n"
    assert json.loads(run("version", "--json").stdout)["penstock"] == version("penstock-streams")


def test_without_a_command_the_commands_are_listed():
    listed = RUNNER.invoke(app, []).output
    assert all(name in listed for name in ("run", "status", "reset", "demo", "topology", "doctor", "config"))


def test_the_installed_script_runs():
    script = Path(sys.executable).parent / "penstock"
    result = subprocess.run([str(script), "version"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("penstock ")


def test_importing_the_commands_imports_no_spark():
    code = "import sys, penstock.cli.app; print(sorted(m for m in ('pyspark', 'jpype') if m in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
