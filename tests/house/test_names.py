"""The distribution is penstock-streams; what is imported and called is penstock. On PyPI ``penstock`` is another project."""

import ast
import re
import tomllib
from pathlib import Path

from penstock.cli.version import DISTRIBUTION

ROOT = Path(__file__).parents[2]
WRONG = re.compile(
    r"(pip install|requires|version_of|version|distribution)\W.*\bpenstock(?!-streams)(\[|'\)|\"\)|==|>=|$)"
)


def test_the_project_has_the_name_that_is_looked_up():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"] == DISTRIBUTION == "penstock-streams"


def test_nobody_is_told_to_install_the_other_project():
    files = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "tests").rglob("*.py"),
    ]
    told = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files
        if path != Path(__file__)
        for line in path.read_text().splitlines()
        if re.search(r"pip install|importlib|metadata|version\(|requires\(", line) and WRONG.search(line)
    ]
    assert not told


def test_a_class_name_exists_once():
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE):
            found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


#: words of the first version that hide a known term: the left columns of the table in STYLE. Nothing is called so
OLD = frozenset(
    "courier attend parcel parcels shelf staging staged ledger standing soundings alignment settlement outage chatter "  # noqa: SIM905
    "irregular unreadable meeting met sheet gathered incoming tap taps patience hurry inbox outbox intake apart story "
    "told heard untold orders tails letter letters turn judge".split()
)
#: Kafka's words, in which an old one is a part of a term; and what a name of Python's or of a library is
KNOWN = re.compile("dead_?letters?|DeadLetters?|DEAD_LETTERS?|return")


def defined_names(path: Path) -> set[str]:
    """Return the names that a file defines: its own, classes, functions, attributes, constants; not parameters and local variables."""
    found = {path.stem}
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    for owner in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]:
        for node in owner.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def words_of(name: str) -> set[str]:
    """Return the words of a name.

    >>> sorted(words_of("_tell_StoreRows2"))
    ['rows', 'store', 'tell']
    """
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", KNOWN.sub("", name))}


def test_nothing_has_an_old_name():
    found = {}
    for path in sorted((ROOT / "src" / "penstock").rglob("*.py")):
        kafkas = {"letter", "letters"} if "dead_letter" in path.as_posix() else set()  # of a dead-letter topic
        wrong = {name for name in defined_names(path) if words_of(name) & (OLD - kafkas)}
        if wrong:
            found[str(path.relative_to(ROOT))] = sorted(wrong)
    assert found == {}


#: files of which a decision says that they are no more
GONE = {"log/_native.c", "state/_apart.c"}


def test_documents_name_files_that_exist():
    """As ``room/file.py`` below the package, or from the root."""
    homes = (ROOT, ROOT / "src" / "penstock", ROOT / "tests", ROOT / "docs")
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        named = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|c|h|toml|md))`", document.read_text()))
        assert not [name for name in named - GONE if not any((home / name).exists() for home in homes)], document


def test_a_decision_has_a_date_and_a_status():
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        head = path.read_text().split("**", 1)[0]
        assert re.search(r"^Date: \d{4}-\d\d-\d\d\. Status: (accepted|superseded)", head, re.MULTILINE), path


def test_lines_of_decisions_and_of_the_walk_have_120_characters_at_most():
    """But for rows of tables, and what a program prints."""
    documents = [*(ROOT / "docs" / "decisions").glob("*.md"), ROOT / "CONTRIBUTING.md"]
    documents += [ROOT / "docs" / f"{name}.md" for name in ("walk", "formats", "sql", "schemas", "epoch")]
    for path in documents:
        prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert not [line for line in prose.splitlines() if len(line) > 120 and not line.startswith("|")], path
