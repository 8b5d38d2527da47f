"""Programs are typed for pyright, too: the examples, and options right and wrong. mypy checks them with the sources."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def pyright(*arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("node") is None:
        pytest.skip("pyright runs on Node.js, which is not here: the types were checked by mypy alone")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_pyright_accepts_the_examples_and_refuses_wrong_options():
    checked = pyright()
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "0 errors" in checked.stdout


def test_pyright_names_an_option_that_does_not_exist(tmp_path):
    program = tmp_path / "program.py"
    program.write_text('from penstock import App, StreamsBuilder\nApp(StreamsBuilder(), application_id="a", lane=4)\n')
    checked = pyright(str(program))
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert 'No parameter named "lane"' in checked.stdout
