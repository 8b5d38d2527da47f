"""What a store holds, asked of a running application over HTTP (the routes of its admin server)."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from penstock.cli.kafka import BadInput, BadOption
from penstock.cli.query_kafka import Asked
from penstock.errors import StoreError

#: seconds to wait for an answer
TIMEOUT = 30
#: rows of a page
PAGE = 1000
#: what a wrong call is answered with: the same call fails again
WRONG_CALL = (400, 404)


def stores(url: str) -> Any:
    """Return the stores of an application."""
    return fetched(url, "/v1/stores")


def answer(url: str, store: str, asked: Asked) -> dict[str, Any]:
    """Return the rows that are asked for; of a range all pages, which are of one epoch."""
    kind = ""
    if asked.key is not None and not (asked.history or asked.as_of is not None):
        kind = fetched(url, f"/v1/stores/{quote(store, safe='')}").get("kind", "")
    path, options = route(store, kind, asked)
    found: dict[str, Any] = fetched(url, path, options)
    page = found
    while page.get("cursor") and (asked.limit is None or len(found["rows"]) < asked.limit):
        page = fetched(url, path, options | {"cursor": page["cursor"]})
        found["rows"] += page["rows"]
    found.pop("cursor", None)
    if asked.limit is not None and "rows" in found:
        found["rows"] = found["rows"][: asked.limit]
    return found


def route(store: str, kind: str, asked: Asked) -> tuple[str, dict[str, Any]]:
    """Return the path of a query and its options.

    >>> route("counts", "key_value", Asked(key="a b"))
    ('/v1/stores/counts/keys/a%20b', {})
    >>> route("counts", "", Asked(lower="a", limit=5))
    ('/v1/stores/counts/range', {'from': 'a', 'limit': 5})
    """
    base = f"/v1/stores/{quote(store, safe='')}"
    times = {"from": asked.since, "to": asked.until}
    if asked.key is not None:
        key = quote(asked.key, safe="")
        if asked.history or asked.as_of is not None:
            return f"{base}/versions/{key}", _given(times | {"as_of": asked.as_of})
        match kind:
            case "window":
                return f"{base}/windows/{key}", _given(times)
            case "session":
                return f"{base}/sessions/{key}", _given(times)
            case "versioned":
                return f"{base}/versions/{key}", {}
        return f"{base}/keys/{key}", {}
    limit = min(PAGE, asked.limit or PAGE)
    if asked.prefix is not None:
        return f"{base}/prefix/{quote(asked.prefix, safe='')}", {"limit": limit}
    reverse = "true" if asked.reverse else None
    return f"{base}/range", _given({"from": asked.lower, "to": asked.upper, "reverse": reverse, "limit": limit})


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
        raise _refused(error, full) from error
    except (URLError, OSError, json.JSONDecodeError) as error:
        why = getattr(error, "reason", error)
        raise BadInput(
            f"{full}: no answer that can be used ({why}). Does the application run with admin= set to that address? For one that does "
            "not run: --bootstrap-servers and --application-id instead of --url"
        ) from error


def _refused(error: HTTPError, full: str) -> BadInput | BadOption | StoreError:
    try:
        said = json.load(error)
        message = f"{said['error']}: {said['remedy']}" if said.get("remedy") else str(said["error"])
    except (ValueError, KeyError, TypeError):
        message = f"{full}: {error.code} {error.reason}"
    return BadOption(message) if error.code in WRONG_CALL else StoreError(message)
