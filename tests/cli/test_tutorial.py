"""The tutorial, executed from top to bottom as a new user would: its files, its commands, a real broker, Spark, what it shows."""

import doctest
import re
import shutil
from pathlib import Path

import pytest
from tests.terminals import Terminals

from penstock.dev.server import free_ports

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "tutorial.md").read_text()
STEP = re.compile(
    r'(?:^<!-- ([^>]*) -->\n)?^```(\w+)(?: title="([^"]+)")?\n(.*?)^```|^<!-- (stop): ([^>]*) -->', re.M | re.S
)

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine"),
]


@pytest.fixture
def terminals(tmp_path):
    ports = dict(zip(("9092", "8080"), map(str, free_ports("127.0.0.1", 2)), strict=True))
    kept = {"penstock dev\n": f"penstock dev --port {ports['9092']} --data {tmp_path / 'kafka'}\n"}
    made = Terminals(tmp_path, f"localhost:{ports['9092']}", kept | ports)
    yield made
    made.close()


def test_the_tutorial_shows_what_it_says(terminals):
    said, checked, executed = "", 0, 0
    for direction, language, title, body, stop, what in STEP.findall(TEXT):
        if stop:
            terminals.stop(what)
        elif direction.startswith("not here"):
            continue
        elif language == "python":
            terminals.write(title, body)
        elif language == "console" and direction.startswith("in the background until: "):
            terminals.start_beside(body, direction.partition(": ")[2])
        elif language == "console":
            said = terminals.run(body, direction.partition(": ")[2])
            executed += 1
        elif language == "text":
            checker = doctest.OutputChecker()
            assert checker.check_output(body, said, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), (
                f"{body}\n!=\n{said}"
            )
            checked += 1
    assert (executed, checked) == (7, 5)
