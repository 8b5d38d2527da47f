"""Dead letters as text for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from penstock.cli.output import clean, print_table
from penstock.cli.times import shown_time

if TYPE_CHECKING:
    from penstock.dead_letters.forms import Newest

REASON_LENGTH = 100


def json_line(form: Mapping[str, Any]) -> str:
    """Write plain data as one line of JSON."""
    return json.dumps(clean(form), ensure_ascii=False)


def print_letters(newest: Newest) -> None:
    """Print the letters that are kept as a table."""
    forms = newest.forms()
    print_table(
        ("letter", "source", "node", "exception", "reason", "time (UTC)", "redriven"),
        [
            (
                f"{form['partition']}:{form['offset']}",
                source_text(form),
                form["node"] or "-",
                (form["exception"] or "-").rpartition(".")[2],
                _first_line(form["reason"] or "-"),
                shown_time(form["timestamp"]),
                shown_time(form["redriven"]) or "no",
            )
            for form in forms
        ],
    )
    if len(forms) < newest.total:
        typer.echo(f"The newest {len(forms):,} of {newest.total:,}: --limit shows more.")


def print_kinds(newest: Newest, topic: str) -> None:
    """Print how many letters there are of each node and exception."""
    if not newest.total:
        typer.echo(f"There are no such letters in {topic}.")
        return
    rows = [
        (row["node"] or "-", row["exception"] or "-", f"{row['letters']:,}", f"{row['not_redriven']:,}")
        for row in newest.kinds()
    ]
    print_table(("node", "exception", "letters", "not redriven"), rows)


def source_text(form: Mapping[str, Any]) -> str:
    """Return the source record of a letter, as messages write it."""
    source = form["source"]
    return "-" if source is None else f"{source['topic']}-{source['partition']}@{source['offset']}"


def print_letter(form: Mapping[str, Any]) -> None:
    """Print everything about a letter."""
    rows = {
        "letter": f"{form['topic']}-{form['partition']}@{form['offset']}",
        "source": source_text(form),
        "node": form["node"] or "-",
        "exception": form["exception"] or "-",
        "reason": form["reason"] or "-",
        "time": f"{shown_time(form['timestamp'])} UTC ({form['timestamp']})",
        "redriven": shown_time(form["redriven"]) or "no",
        **({"redriven before it failed": f"{form['redrives']} time(s)"} if form["redrives"] else {}),
        **form["details"],
        **{f"header {name}": data_text(data) for name, data in form["headers"]},
        "key": data_text(form["key"]),
        "value": data_text(form["value"]),
    }
    for name, text in clean(rows).items():
        typer.echo(f"{name}: {text}")
    if form["stacktrace"]:
        typer.echo(f"\n{clean(form['stacktrace'])}".rstrip())


def data_text(form: Mapping[str, Any] | None) -> str:
    r"""Return bytes for people: JSON in lines if it is a structure, text, else base64; control characters are escaped.

    >>> from penstock.dead_letters.forms import data_form
    >>> data_text(data_form(b"pear")), data_text(data_form(bytes([255]))), data_text(None)
    ('pear', '/w== (base64)', 'null')
    """
    if form is None:
        return "null"
    if isinstance(form.get("json"), dict | list):
        return json.dumps(form["json"], indent=2, ensure_ascii=False)
    if "text" not in form:
        return f"{form['bytes']} (base64)"
    return "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in form["text"])


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= REASON_LENGTH else f"{line[: REASON_LENGTH - 1]}…"
