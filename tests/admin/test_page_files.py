"""The files of the page: all that it names are there, it loads nothing from elsewhere, and a policy holds it to that."""

import re
from importlib.resources import files

import pytest

PAGE = files("penstock.admin") / "page"
NAMES = sorted(each.name for each in PAGE.iterdir())


def test_the_page_and_its_files_are_served_with_a_policy(serve):
    _, client = serve()
    for path in ("/", *(f"/page/{name}" for name in NAMES)):
        answer = client.get(path)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "access-control-allow-origin" not in answer.headers
    assert client.get("/").headers["content-type"].startswith("text/html")
    assert client.get("/page/main.js").headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize(
    "name", ["nothing.js", "..%2Fasgi.py", "%2e%2e%2froutes.py", "page.css.bak", "x" * 300 + ".js"]
)
def test_what_is_no_file_of_the_page_is_404(serve, name):
    _, client = serve()
    assert client.get(f"/page/{name}").status_code == 404


def test_every_file_that_the_page_names_is_there():
    page = (PAGE / "index.html").read_text()
    named = set(re.findall(r'(?:src|href)="page/([^"]+)"', page))
    for name in NAMES:
        if name.endswith(".js"):
            named |= set(re.findall(r'from "\./([^"]+)"', (PAGE / name).read_text()))
    assert named == set(NAMES) - {"index.html"}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_comes_from_elsewhere_and_nothing_is_parsed_as_html(name):
    text = (PAGE / name).read_text()
    for address in re.findall(r"https?://[^\"'` )]+", text):
        assert address == "http://www.w3.org/2000/svg"
    for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert unsafe not in text


def test_the_elements_that_scripts_ask_for_are_in_the_page():
    page = (PAGE / "index.html").read_text()
    ids = set(re.findall(r'id="([\w-]+)"', page))
    for name in NAMES:
        asked = set(re.findall(r'\$\("([\w-]+)"\)', (PAGE / name).read_text())) if name.endswith(".js") else set()
        assert asked <= ids, name


def test_the_overview_of_an_application_that_has_not_started(serve):
    _, client = serve()
    found = client.get("/v1/overview").json()
    assert found["state"] == "CREATED"
    assert [each["level"] for each in found["findings"]] == ["info"]
    assert set(found["stores"]) == {"counts"}
    assert found["nodes"]["KSTREAM-FLATMAPVALUES-0000000001"]["dropped"] == {}
