"""The page at ``/``: static files of the package, served as they are. No build step, no framework; nothing from other hosts."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from penstock.admin.answers import HEADERS, HttpError

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
#: the page may load its own files and ask its own server, and nothing else
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {**HEADERS, "content-security-policy": POLICY, "referrer-policy": "no-referrer"}


@cache
def page_file(name: str) -> bytes | None:
    """Return a file of the page; None if it has no such file."""
    known = {each.name: each for each in (files("penstock.admin") / "page").iterdir()}
    return known[name].read_bytes() if name in known else None


async def index(request: Request) -> Response:
    """The page."""
    return _answer("index.html")


async def part(request: Request) -> Response:
    """A file of the page."""
    return _answer(request.path_params["file"])


def _answer(name: str) -> Response:
    kind = TYPES.get(name.rpartition(".")[2])
    data = None if kind is None or len(name) > 100 else page_file(name)
    if data is None:
        raise HttpError(404, "the page has no such file", "see /")
    return Response(data, 200, PAGE_HEADERS, kind)
