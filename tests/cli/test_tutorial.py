"""The tutorial, executed from top to bottom as a new user would: its files, its commands, a real broker, Spark, what it shows."""

import doctest
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.dev.server import free_ports

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "tutorial.md").read_text()
STEP = re.compile(
    r'(?:^<!-- ([^>]*) -->\n)?^```(\w+)(?: title="([^"]+)")?\n(.*?)^```|^<!-- (stop): ([^>]*) -->', re.M | re.S
)
SECONDS = 120

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine"),
]


class Terminals:
    """A folder, and terminals in it: commands that end, and those that go on beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = dict(zip(("9092", "8080"), map(str, free_ports("127.0.0.1", 2)), strict=True))
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PENSTOCK_BOOTSTRAP_SERVERS": f"localhost:{self.ports['9092']}",
            "PENSTOCK_STATE_DIR": str(folder / "state"),
            "PENSTOCK_MASTER": "local[2]",
            "COLUMNS": "100",
        }
        self.beside: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}

    def here(self, text: str) -> str:
        """Return a text with the ports of this machine."""
        text = text.replace("penstock dev\n", f"penstock dev --port 9092 --data {self.folder / 'kafka'}\n")
        return re.sub("9092|8080", lambda found: self.ports[found[0]], text)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(self.here(text))

    def run(self, commands: str, until: str = "") -> str:
        """Run commands, again and again until they show something if that is asked for; return what they print."""
        deadline = time.monotonic() + SECONDS
        while True:
            process = self.start(commands, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            said, errors = (text.decode() for text in process.communicate(timeout=SECONDS))
            if until in said and process.returncode == 0:
                return said
            assert until, f"{commands}\n{said}\n{errors}\n{self.logs()}"
            assert time.monotonic() < deadline, f"{commands}\n{said}\n{errors}\n{self.logs()}"
            time.sleep(0.5)

    def start(self, commands: str, **how: Any) -> subprocess.Popen[bytes]:
        line = ["bash", "-ec", self.here(commands)]
        return subprocess.Popen(line, cwd=self.folder, env=self.environment, start_new_session=True, **how)

    def start_beside(self, commands: str, until: str) -> None:
        log = self.folder / f"terminal-{len(self.beside)}.log"
        with log.open("w") as output:
            process = self.start(f"exec {commands.strip()}\n", stdout=output, stderr=subprocess.STDOUT)
        self.beside[commands] = process, log
        deadline = time.monotonic() + SECONDS
        while until not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)

    def stop(self, beginning: str) -> None:
        """Press Ctrl-C in the terminal of a command; it must end well."""
        (commands,) = [known for known in self.beside if known.startswith(beginning)]
        process, log = self.beside.pop(commands)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(SECONDS) == 0, log.read_text()

    def logs(self) -> str:
        return "\n".join(log.read_text()[-3000:] for _, log in self.beside.values())

    def close(self) -> None:
        for process, _ in reversed(self.beside.values()):
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def terminals(tmp_path):
    made = Terminals(tmp_path)
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
