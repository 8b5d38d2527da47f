"""``/openapi.json``: the endpoints, described for machines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from penstock.admin.routes import Endpoint

#: what each status of an error means here
ERRORS = {
    400: "a parameter, a key or a body that cannot be used",
    401: "the token is missing or wrong",
    403: "the application takes no such requests",
    404: "there is no such path, store or key",
    405: "another method is meant",
    408: "the request took too long to come",
    409: "no barrier had what was asked for in the time given",
    410: "a cursor, or what a feed is to go on from, is not kept any more",
    413: "the body is too long",
    503: "not now: see Retry-After",
}


def describe(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        for path in (endpoint.path, *endpoint.aliases):
            shown = re.sub(r":\w+}", "}", path)
            paths.setdefault(shown, {})[endpoint.method.lower()] = _operation(endpoint, path)
    error = {
        "type": "object",
        "required": ["status", "error", "remedy"],
        "properties": {"status": {"type": "integer"}, "error": {"type": "string"}, "remedy": {"type": "string"}},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock", "version": version},
        "paths": paths,
        "components": {
            "schemas": {"Error": error},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint, path: str) -> dict[str, Any]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)(?::\w+)?}", path)
    ]
    in_query = [
        {"name": p.name, "in": "query", "description": p.meaning, "schema": {"type": p.kind}}
        for p in endpoint.parameters
    ]
    kind = "text/event-stream" if endpoint.streams else "application/json"
    found: dict[str, Any] = {
        "summary": endpoint.summary,
        "parameters": in_path + in_query,
        "responses": {"200": {"description": "what was asked for", "content": {kind: {}}}, **_errors(endpoint)},
    }
    if endpoint.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": endpoint.body}}}
    if endpoint.writes:
        found["security"] = [{"token": []}]
    return found


def _errors(endpoint: Endpoint) -> dict[str, Any]:
    codes = [code for code in ERRORS if endpoint.writes or code not in (401, 403)]
    schema = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {str(code): {"description": ERRORS[code], "content": schema} for code in codes}
