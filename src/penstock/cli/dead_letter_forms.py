"""Dead letters as plain data, and as text for people."""

from __future__ import annotations

import base64
import heapq
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

from penstock.cli.output import clean, print_table
from penstock.cli.times import shown_time
from penstock.record import raw_name

if TYPE_CHECKING:
    from penstock.dead_letters.letter import DeadLetter
    from penstock.dead_letters.redrive import RedriveResult

REASON_LENGTH = 100


class Newest:
    """The newest letters of those that were found, by time; None: all. Counts all of them by node and exception."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._heap: list[tuple[int, int, int, dict[str, Any]]] = []
        self._counts: Counter[tuple[str | None, str | None]] = Counter()
        self._waiting: Counter[tuple[str | None, str | None]] = Counter()

    def add(self, form: dict[str, Any], *, keep: bool) -> None:
        """Count a letter, and keep it if it is new enough."""
        kind = form["node"], form["exception"]
        self._counts[kind] += 1
        self._waiting[kind] += form["redriven"] is None
        if keep:
            heapq.heappush(self._heap, (form["timestamp"], form["partition"], form["offset"], form))
            if self._most is not None and len(self._heap) > self._most:
                heapq.heappop(self._heap)

    @property
    def total(self) -> int:
        """How many were found."""
        return self._counts.total()

    def forms(self) -> list[dict[str, Any]]:
        """Return those that are kept, the oldest first."""
        return [form for *_, form in sorted(self._heap, key=lambda each: each[:3])]

    def kinds(self) -> Iterator[dict[str, Any]]:
        """Yield how many there are of each node and exception, the most first; and how many of them were not redriven."""
        for (node, exception), count in self._counts.most_common():
            waiting = self._waiting[node, exception]
            yield {"node": node, "exception": exception, "letters": count, "not_redriven": waiting}


def line_form(letter: DeadLetter, redriven: int | None) -> dict[str, Any]:
    """Return what ``list`` tells of a letter."""
    topic, partition = letter.source or (None, None)
    return {
        "topic": letter.record.topic,
        "partition": letter.record.partition,
        "offset": letter.record.offset,
        "source": None if topic is None else {"topic": topic, "partition": partition, "offset": letter.offset},
        "node": letter.node,
        "exception": letter.exception,
        "reason": letter.reason,
        "timestamp": letter.timestamp,
        "redrives": letter.redrives,
        "redriven": redriven,
    }


def full_form(letter: DeadLetter, redriven: int | None) -> dict[str, Any]:
    """Return everything about a letter."""
    known = {"exception", "message", "stacktrace", "topic", "partition", "offset", "node", "timestamp"}
    return {
        **line_form(letter, redriven),
        "details": {name: text for name, text in letter.details.items() if name not in known},
        "stacktrace": letter.details.get("stacktrace"),
        "headers": [
            [raw_name(name).decode(errors="backslashreplace"), data_form(data)] for name, data in letter.headers
        ],
        "key": data_form(letter.record.key),
        "value": data_form(letter.record.value),
    }


def data_form(data: bytes | None) -> dict[str, Any] | None:
    """Return bytes as they are, in base64, and as text and JSON where they are that.

    >>> data_form(b"[1]")
    {'bytes': 'WzFd', 'text': '[1]', 'json': [1]}
    >>> data_form(bytes([255])), data_form(None)
    ({'bytes': '/w=='}, None)
    """
    if data is None:
        return None
    form: dict[str, Any] = {"bytes": base64.b64encode(data).decode()}
    try:
        form["text"] = data.decode()
        form["json"] = json.loads(form["text"])
    except (ValueError, RecursionError):
        pass
    return form


def result_form(topic: str, result: RedriveResult, *, dry_run: bool) -> dict[str, Any]:
    """Return what a redrive has done, or would do."""
    return {
        "dead_letter_topic": topic,
        "dry_run": dry_run,
        "records": result.records,
        "letters": result.letters,
        "already": result.already,
        "refused": [each._asdict() for each in result.refused],
    }


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
