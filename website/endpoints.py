"""The reference of the endpoints over HTTP, from the OpenAPI document that the application itself serves."""

from typing import Any

from penstock.admin.openapi import describe
from penstock.admin.routes import ENDPOINTS


def pages() -> dict[str, str]:
    """Return the page."""
    document = describe(ENDPOINTS, "")
    lines = [
        "# Endpoints",
        "",
        "Generated from the table that the server is made of; `/openapi.json` of an application says the same to machines.",
        "How to use them, what answers look like, and who may ask: [over HTTP](../http.md).",
        "",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines += described(path, method.upper(), operation)
    return {"reference/endpoints.md": "\n".join(lines)}


def described(path: str, method: str, operation: dict[str, Any]) -> list[str]:
    """Return what the page says of an endpoint."""
    lines = [f"## {method} {path}", "", operation["summary"], ""]
    if "security" in operation:
        lines += ["Needs the token (`Authorization: Bearer ...`).", ""]
    if operation["parameters"]:
        lines += ["| parameter | in | meaning |", "| --- | --- | --- |"]
        for parameter in operation["parameters"]:
            meaning = parameter.get("description", "").replace("|", "\\|")
            lines.append(f"| `{parameter['name']}` | {parameter['in']} | {meaning} |")
        lines.append("")
    return lines
