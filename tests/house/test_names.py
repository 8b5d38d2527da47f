"""The distribution is penstock-streams; what is imported and called is penstock. On PyPI ``penstock`` is another project."""

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


#: words of the first version that hide a known term (STYLE); no module and no class is called so
OLD = {
    *(
        "letter",
        "courier",
        "post",
        "parcel",
        "shelf",
        "staging",
        "orders",
        "told",
        "heard",
        "ledger",
        "standing",
        "ahead",
    ),
    *(
        "soundings",
        "alignment",
        "measure",
        "settlement",
        "outage",
        "judge",
        "chatter",
        "irregular",
        "unreadable",
        "meeting",
    ),
    *("met", "sheet", "gathered", "incoming", "tap", "taps", "patience", "inbox", "outbox", "intake", "apart", "story"),
}


def test_no_module_and_no_class_has_an_old_name():
    for path in sorted((ROOT / "src").rglob("*.py")):
        names = [path.stem, *re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE)]
        words = {word.lower() for name in names for word in re.findall(r"[A-Z]?[a-z]+", name)}
        kafkas = {"letter"} if "dead_letter" in path.as_posix() else set()  # of a dead-letter topic
        assert not words & (OLD - kafkas), path


#: files of which a decision says that they are no more
GONE = {"log/_native.c", "state/_apart.c"}


def test_documents_name_files_that_exist():
    """As ``room/file.py`` below the package, or from the root."""
    homes = (ROOT, ROOT / "src" / "penstock", ROOT / "tests", ROOT / "docs")
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        named = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|c|h|toml|md))`", document.read_text()))
        assert not [name for name in named - GONE if not any((home / name).exists() for home in homes)], document
