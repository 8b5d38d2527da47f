"""What a store holds, asked of a running application over HTTP (the routes of its admin server)."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from penstock.cli.kafka import BadInput, BadOption
from penstock.cli.query_kafka import Asked, check
from penstock.errors import StoreError

#: seconds to wait for an answer
TIMEOUT = 30
#: rows of a page
PAGE = 1000
#: what an answer to a key has of its row
ROW = ("key", "value", "timestamp", "valid_to", "window")
#: what a wrong call is answered with: the same call fails again
WRONG_CALL = (400, 404)


def stores(url: str) -> Any:
    """Return the stores of an application."""
    return fetched(url, "/v1/stores")


def answer(url: str, store: str, asked: Asked) -> dict[str, Any]:
    """Return the rows that are asked for; of a range all pages, which are of one epoch."""
    kind = fetched(url, f"/v1/stores/{quote(store, safe='')}")["kind"]
    check(store, kind, asked)
    path, options = route(store, kind, asked)
    found: dict[str, Any] = {"store": store, "kind": kind} | fetched(url, path, options)
    if "rows" not in found:
        value = {name: found.pop(name) for name in ROW if name in found}
        if asked.as_of is None:  # of the last version nobody has asked how long it is valid
            value.pop("valid_to", None)
        found["rows"] = [value] if found.pop("found") else []
    cursor = found.pop("cursor", None)
    while cursor and (asked.limit is None or len(found["rows"]) < asked.limit):
        page = fetched(url, path, options | {"cursor": cursor})
        found["rows"] += page["rows"]
        cursor = page.get("cursor")
    rows = [row for row in found["rows"] if kind != "session" or _overlaps(row["window"], asked)]
    if asked.reverse and not path.endswith("/range"):
        rows.reverse()
    return found | {"rows": rows[: asked.limit]}


def _overlaps(session: dict[str, int], asked: Asked) -> bool:
    since, until = asked.since, asked.until
    return (since is None or session["end"] >= since) and (until is None or session["start"] <= until)


def route(store: str, kind: str, asked: Asked) -> tuple[str, dict[str, Any]]:
    """Return the path of a query and its options.

    >>> route("counts", "key_value", Asked(key="a b"))
    ('/v1/stores/counts/keys/a%20b', {})
    >>> route("counts", "key_value", Asked(lower="a", limit=5))
    ('/v1/stores/counts/range', {'from': 'a', 'limit': 5})
    """
    base, times = f"/v1/stores/{quote(store, safe='')}", {"from": asked.since, "to": asked.until}
    page = {"limit": PAGE if asked.limit is None or asked.reverse else min(PAGE, asked.limit)}
    if asked.key is not None:
        key = quote(asked.key, safe="")
        if asked.history or asked.as_of is not None:
            return f"{base}/versions/{key}", _given(times | {"as_of": asked.as_of})
        if kind == "window":
            return f"{base}/windows/{key}", _given(times | page)
        return (f"{base}/sessions/{key}", page) if kind == "session" else (f"{base}/keys/{key}", {})
    if kind == "window":
        return f"{base}/windows", _given(times | page)
    if kind in ("session", "versioned"):
        raise BadOption(
            f"store {store!r} is a {kind} store, of which an application is asked by key: add --key, or read it from Kafka "
            "(--application-id instead of --url)"
        )
    if asked.prefix is not None:
        return f"{base}/prefix/{quote(asked.prefix, safe='')}", page
    reverse = "true" if asked.reverse else None
    return f"{base}/range", _given({"from": asked.lower, "to": asked.upper, "reverse": reverse} | page)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def fetched(url: str, path: str, options: dict[str, Any] | None = None) -> Any:
    """Fetch JSON; raise what a person can act on."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise BadOption(f"--url {url}: write it as http://127.0.0.1:8080, what the application has as admin=")
    full = url.rstrip("/") + path + ("?" + urlencode(options) if options else "")
    try:
        with urlopen(Request(full, headers={"accept": "application/json"}), timeout=TIMEOUT) as response:
            return json.load(response)
    except HTTPError as error:
        return _refused(error, full)
    except (URLError, OSError, json.JSONDecodeError) as error:
        why = getattr(error, "reason", error)
        raise BadInput(
            f"{full}: no answer that can be used ({why}). Does the application run with admin= set to that address? For one that does "
            "not run: --bootstrap-servers and --application-id instead of --url"
        ) from error


def _refused(error: HTTPError, full: str) -> Any:
    """Raise what was answered; that a key has no row is an answer."""
    try:
        said = json.load(error)
        message = f"{said['error']}: {said['remedy']}" if said.get("remedy") else str(said["error"])
    except (ValueError, KeyError, TypeError):
        said, message = {}, f"{full}: {error.code} {error.reason}"
    if error.code == 404 and said.get("found") is False:
        return {name: said[name] for name in ("epoch", "position", "found")}
    raise (BadOption if error.code in WRONG_CALL else StoreError)(message) from error
