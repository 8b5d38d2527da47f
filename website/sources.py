"""The sources of the site: docs/, the generated reference, and what pages link to elsewhere in the tree."""

import os
import re
import shutil
from pathlib import Path

from website import api, commands, endpoints, pictures

#: pages that are not below docs/, with the name that they get on the site
ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "examples/README.md": "examples.md",
    "deploy/README.md": "deploy.md",
}
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")
#: what pages show of Mermaid: without its script, which is larger than the site, the text is shown
MERMAID = re.compile(r"^```mermaid$", re.MULTILINE)
SESSION = re.compile(r"^```python\n>>>", re.MULTILINE)


def write(root: Path, target: Path) -> None:
    """Write all sources to a folder, anew."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root / "docs", target)
    shutil.copytree(Path(__file__).with_name("assets"), target / "assets")
    pages = {path: path.relative_to(root / "docs") for path in (root / "docs").rglob("*.md")}
    pages |= {root / path: Path(name) for path, name in ELSEWHERE.items() if (root / path).exists()}
    for path, name in pages.items():
        if path == root / "README.md":  # the first page has a text of its own
            continue
        (target / name).write_text(page(path, name, pages, root, target))
    generated = {**api.pages(), **commands.pages(), **endpoints.pages(), "decisions/index.md": decisions(root)}
    generated["documents.md"] = documents({name: path.read_text() for path, name in pages.items()})
    for where, text in generated.items():
        (target / where).parent.mkdir(parents=True, exist_ok=True)
        (target / where).write_text(text)


def page(path: Path, name: Path, pages: dict[Path, Path], root: Path, target: Path) -> str:
    """Return a page as the site has it: links lead to pages of the site, or to copies of files of the tree."""

    def link(found: re.Match[str]) -> str:
        before, where, after = found.groups()
        wanted = Path(os.path.normpath(path.parent / where))
        if ":" in where or not wanted.exists() or not wanted.is_relative_to(root):
            return found[0]
        if wanted.is_dir():
            wanted = wanted / ("README.md" if (wanted / "README.md").exists() else "")
        if wanted == root / "docs" / "decisions":
            there = Path("decisions/index.md")
        elif wanted in pages:
            there = pages[wanted]
        elif wanted.is_relative_to(root / "docs"):
            there = wanted.relative_to(root / "docs")
        else:
            there = Path("files") / wanted.relative_to(root)
            there = there.with_name(f"{there.name}.txt") if wanted.is_dir() else there
            copy(wanted, target / there)
        return f"{before}{os.path.relpath(there, name.parent)}{after}"

    text = LINK.sub(link, pictures.drawn(path.read_text(), name, target))
    return SESSION.sub("```pycon\n>>>", MERMAID.sub("```text", text))


def copy(source: Path, target: Path) -> None:
    """Copy a file that a page links to; of a folder, write the list of its files."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.write_text("".join(f"{path.name}\n" for path in sorted(source.iterdir()) if path.is_file()))
    else:
        shutil.copyfile(source, target)


def documents(pages: dict[Path, str]) -> str:
    """Return the list of all documents but the decisions, so that each is reached, whatever the navigation has."""
    lines = ["# All documents", ""]
    for name in sorted(pages):
        if name.parts[0] != "decisions":
            title = next((line.lstrip("# ") for line in pages[name].splitlines() if line.startswith("# ")), name.stem)
            lines.append(f"- [{title}]({name})")
    return "\n".join([*lines, ""])


def decisions(root: Path) -> str:
    """Return the list of the decisions, the newest first."""
    rows = []
    for path in sorted((root / "docs" / "decisions").glob("[0-9]*.md"), reverse=True):
        text = path.read_text()
        title, said = (
            text.splitlines()[0].lstrip("# "),
            re.search(r"^Date: (\S+)\. Status: ([^.\n]+)", text, re.MULTILINE),
        )
        date, status = said.groups() if said else ("", "")
        rows.append(f"| [{title}]({path.name}) | {date} | {status} |")
    head = "# Decisions\n\nWhy things are as they are: each choice that had an alternative.\n\n"
    return head + "\n".join(["| decision | date | status |", "| --- | --- | --- |", *rows, ""])
