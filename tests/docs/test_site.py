"""The documentation site: it builds without a warning, all links lead somewhere, and the reference has everything public."""

import importlib
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from website import api, commands

import penstock
from penstock import testing
from penstock.admin.routes import ENDPOINTS
from penstock.cli.app import app

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
pytestmark = pytest.mark.xdist_group("site")  # one process builds it


class Page(HTMLParser):
    """What a page links to and loads, and where it can be linked to; text of links in the navigation is not told apart."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.loaded, self.anchors = set(), set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if "id" in found:
            self.anchors.add(found["id"])
        if tag == "a" and found.get("href"):
            self.links.add(found["href"])
        elif tag in ("img", "script") and found.get("src"):
            self.loaded.add(found["src"])
        elif tag == "link" and found.get("href") and found.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.add(found["href"])


@pytest.fixture(scope="module")
def built():
    """Build the site; return its pages by path."""
    run = subprocess.run([sys.executable, "-m", "website"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    pages = {path: Page(path) for path in SITE.rglob("*.html") if path.name != "404.html" and "files" not in path.parts}
    return run.stdout + run.stderr, pages


def lead(page, link):
    """Return the file and the anchor that a link of the site leads to; None for other hosts."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return (path / "index.html" if path.is_dir() else path), parts.fragment


def test_the_site_is_built_without_a_warning(built):
    said, pages = built
    assert "No issues found" in said
    assert not re.search(r"warn|error", said, re.IGNORECASE), said
    assert len(pages) > 80


def test_every_link_leads_to_a_page_and_an_anchor_that_exist(built):
    _, pages = built
    lost = []
    for path, page in pages.items():
        for link in page.links | page.loaded:
            if (there := lead(path, link)) is None:
                continue
            target, anchor = there
            known = pages.get(target)
            if not target.exists() or (
                anchor and known and anchor not in known.anchors and not anchor.startswith("__")
            ):
                lost.append(f"{path.relative_to(SITE)}: {link}")
    assert lost == []


def test_no_page_loads_anything_from_another_host(built):
    _, pages = built
    foreign = {link for path, page in pages.items() for link in page.loaded if lead(path, link) is None}
    assert not {link for link in foreign if not link.startswith("data:")}
    styles = "".join(path.read_text() for path in SITE.rglob("*.css"))
    assert not re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//[^)]*", styles)


def test_every_page_is_reached_in_three_clicks(built):
    _, pages = built
    clicks = defaultdict(lambda: 99, {SITE / "index.html": 0})
    reached = [SITE / "index.html"]
    for path in reached:
        for link in pages[path].links:
            there = lead(path, link)
            if there and there[0] in pages and there[0] not in clicks:
                clicks[there[0]] = clicks[path] + 1
                reached.append(there[0])
    assert {path.name: clicks[path] for path in pages if clicks[path] > 3} == {}


def test_every_document_is_a_page(built):
    _, pages = built
    documents = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert documents - {path.relative_to(SITE) for path in pages} == set()


def test_the_reference_has_every_public_name_on_one_page():
    listed = [
        (module, name) for _, modules in api.PAGES.values() for module, names in modules.items() for name in names
    ]
    assert len(listed) == len(set(listed))
    public = {("penstock", name) for name in penstock.__all__} | {("penstock.testing", n) for n in testing.__all__}
    assert public - set(listed) == set()
    assert all(hasattr(importlib.import_module(module), name) for module, name in listed)


def test_every_public_method_has_a_place_in_the_reference(built):
    _, pages = built
    anchors = {path.stem: page.anchors for path, page in pages.items() if path.parent == SITE / "reference" / "api"}
    for page, (_, modules) in api.PAGES.items():
        for module, names in modules.items():
            for name in names:
                thing = getattr(importlib.import_module(module), name)
                wanted = (
                    {f"{name.lower()}-{method}" for method, _ in api.members(thing)}
                    if isinstance(thing, type)
                    else set()
                )
                assert {name.lower()} | wanted <= anchors[page], name
    assert "kstream-flat_map_values" in anchors["streams"]  # inherited


def test_the_reference_has_every_command_and_option(built):
    text = (SITE / "reference" / "commands.md").read_text()
    assert "## penstock topics create" in text
    for path, command in commands.walk(commands.typer.main.get_command(app), ("penstock",)):
        section = text.partition(f"## {' '.join(path)}\n")[2].partition("\n## ")[0]
        assert section, path
        for parameter in command.params:
            assert parameter.opts[-1].upper() in section.upper(), (path, parameter.name)


def test_the_reference_has_every_endpoint(built):
    text = (SITE / "reference" / "endpoints.md").read_text()
    for endpoint in ENDPOINTS:
        assert f"## {endpoint.method} {re.sub(r':[a-z]+}', '}', endpoint.path)}\n" in text


def test_llms_txt_lists_every_page_of_the_navigation_and_the_pages_are_there(built):
    text = (SITE / "llms.txt").read_text()
    assert text.startswith("# Penstock\n\n> ")
    links = re.findall(r"^- \[[^]]+\]\(([^)]+)\)", text, re.MULTILINE)
    assert len(links) > 40
    assert [link for link in links if not (SITE / link).is_file()] == []
    assert {"guide.md", "tutorial.md", "migration/kafka-streams.md", "reference/api/streams.md"} <= set(links)
    assert "flat_map_values" in (SITE / "llms-full.txt").read_text()


SHOWN = re.compile(r"^```(?:console|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?:^|[ /$])(penstock (?!-).*)")


def calls():
    """Yield each command line of Penstock's in the documents, without what is behind a pipe or a comment."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples" / "README.md"]:
        for block in SHOWN.findall(path.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                if found := CALL.search(re.split(r"\s[#|>&]", line)[0]):
                    yield path.name, found[1].strip()


def test_every_command_line_in_the_documents_is_one_that_penstock_takes():
    root = commands.typer.main.get_command(app)
    shown = list(calls())
    assert len(shown) > 15
    for where, line in shown:
        command, words = root, shlex.split(line)[1:]
        while getattr(command, "commands", None):
            assert words, f"{where}: {line}"
            assert words[0] in command.commands, f"{where}: {line}"
            command, words = command.commands[words[0]], words[1:]
        taken = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        used = {re.split("=", word)[0] for word in words if re.match(r"--?[a-zA-Z]", word)}
        assert used <= taken | {"--help"}, f"{where}: {line}"
