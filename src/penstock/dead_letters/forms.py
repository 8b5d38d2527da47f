"""Dead letters as plain data: for the command line, and over HTTP."""

from __future__ import annotations

import base64
import heapq
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from penstock.dead_letters.letter import DeadLetter
from penstock.dead_letters.redrive import RedriveResult
from penstock.record import raw_name


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
        """Number of letters that were found."""
        return self._counts.total()

    def forms(self) -> list[dict[str, Any]]:
        """Return the letters that are kept, the oldest first."""
        return [form for *_, form in sorted(self._heap, key=lambda each: each[:3])]

    def kinds(self) -> Iterator[dict[str, Any]]:
        """Yield how many there are of each node and exception, the most first; and how many of them were not redriven."""
        for (node, exception), count in self._counts.most_common():
            waiting = self._waiting[node, exception]
            yield {"node": node, "exception": exception, "letters": count, "not_redriven": waiting}


def line_form(letter: DeadLetter, redriven: int | None) -> dict[str, Any]:
    """Return a letter as ``list`` shows it."""
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
    """Return the result of a redrive, or of its dry run."""
    return {
        "dead_letter_topic": topic,
        "dry_run": dry_run,
        "records": result.records,
        "letters": result.letters,
        "already": result.already,
        "refused": [each._asdict() for each in result.refused],
    }
