"""The blocks of code in the documents, and what runs each: a mark in front of it says so where it is not plain.

``<!-- run: NAME -->``: a test that asks for the name; those are in the files that `test_blocks.py` lists.
``<!-- not run: REASON -->``; in the tutorial it is ``not here``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import penstock
from penstock.cli.app import app as commands

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "examples" / "README.md", ROOT / "deploy" / "README.md"]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(
    r'(?:^<!-- ([^>]*) -->\n)?(?:^<div[^>]*>\n\n)?(?:^```java\n.*?^```\n\n)?^```(\w+)(?: title="([^"]+)")?\n(.*?)^```',
    re.MULTILINE | re.DOTALL,
)
#: pages that a test works through from top to bottom, files and commands
WORKED_THROUGH = {
    "docs/tutorial.md": "cli/test_tutorial.py",
    "docs/migration/state.md": "conformance/test_moved_on_a_broker.py",
}
#: what test_migration.py finds its programs by
OF_THE_CHAPTER = re.compile(r"pair: |program: |queries$")


@dataclass(frozen=True)
class Block:
    """A block of code, and where it is."""

    page: str
    line: int
    mark: str
    language: str
    title: str
    text: str

    @property
    def run_by(self) -> str:
        """Say what runs it, or why nothing does; empty if nothing is known."""
        if self.mark.startswith(("run: ", "not run: ", "not here: ")):
            return self.mark
        if self.page in WORKED_THROUGH:
            return WORKED_THROUGH[self.page]
        if self.page == "docs/migration/kafka-streams.md" and OF_THE_CHAPTER.match(self.mark):
            return "conformance/test_migration.py"
        if self.language == "python" and ">>> " in self.text:
            return "docs/test_docs.py"
        if self.page == "README.md" and self.text.startswith("from penstock import App"):
            return "docs/test_docs.py::test_the_first_app_of_the_readme_is_the_example"
        return ""


def blocks() -> Iterator[Block]:
    """Yield the blocks that somebody may want to run: Python, and commands of Penstock's."""
    for path in DOCUMENTS:
        text = path.read_text()
        for found in BLOCK.finditer(text):
            mark, language, title, body = found.groups(default="")
            if language == "python" or (language in ("console", "bash") and re.search(r"\bpenstock [a-z]", body)):
                line = text.count("\n", 0, found.start()) + 1
                yield Block(path.relative_to(ROOT).as_posix(), line, mark, language, title, body)


def marked(name: str) -> list[Block]:
    """Return the blocks that are marked to be run under a name."""
    return [block for block in blocks() if block.mark == f"run: {name}"]


def run(name: str, space: Mapping[str, Any], **instead: str) -> dict[str, Any]:
    """Run the blocks of Python with a mark, one after the other, in one space of names; return it. ``instead``: of words."""
    found = [block for block in marked(name) if block.language == "python"]
    assert found
    space = {public: getattr(penstock, public) for public in penstock.__all__} | space
    for block in found:
        text = block.text
        for here, there in instead.items():
            assert here in text or len(found) > 1
            text = text.replace(here, there)
        exec(compile(text, f"{block.page}:{block.line}", "exec"), space)
    return space


def command(line: str, instead: Mapping[str, str]) -> str:
    """Run a command line of a document in this process; return what it says."""
    for here, there in instead.items():
        line = line.replace(here, there)
    words = shlex.split(line.replace("-d dead ", "-d shop-dead-letters "), comments=True)
    result = CliRunner().invoke(commands, words[1:], input="y\n")  # to what asks
    assert result.exit_code == 0, f"{line}\n{result.output}"
    return result.output
