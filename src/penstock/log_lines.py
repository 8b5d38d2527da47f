"""Log lines with fields: text for people, a line of JSON for machines (the setting ``log_format``).

Penstock logs with Python's ``logging``, below the logger ``penstock``. What a line is about is in attributes of its record,
`FIELDS`; application and epoch are known to the thread (`about`), and added when the line is written. A program that has set up
logging keeps its handlers, and may give them these formatters:

    handler.setFormatter(JsonFormatter())
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from penstock.masking import Scrub, scrubbed

#: what a line may be about, in the order in which it is shown
FIELDS = ("application", "epoch", "lane", "shard", "node", "topic", "partition", "offset", "error", "function", "line")
TEXT, JSON = "text", "json"

_about: ContextVar[dict[str, Any] | None] = ContextVar("penstock_log_fields", default=None)


def about(**fields: Any) -> None:
    """Explain what all lines of this thread are about from now on, beside what was said before."""
    _about.set({**(_about.get() or {}), **fields})


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a record: its own, and those of the thread.

    >>> record = logging.makeLogRecord({"node": "parse", "topic": "lines", "partition": 0, "offset": 7})
    >>> fields_of(record)
    {'node': 'parse', 'topic': 'lines', 'partition': 0, 'offset': 7}
    """
    known = _about.get() or {}
    values = ((name, getattr(record, name, known.get(name))) for name in FIELDS)
    return {name: value for name, value in values if value is not None}


def record_fields(name: str | None) -> dict[str, Any]:
    """Return the fields of a record that a message names.

    >>> record_fields("orders-1@7")
    {'topic': 'orders', 'partition': 1, 'offset': 7}
    """
    if name is None:
        return {}
    place, _, offset = name.rpartition("@")
    topic, _, partition = place.rpartition("-")
    return {"topic": topic, "partition": int(partition), "offset": int(offset)}


class TextFormatter(logging.Formatter):
    """Lines for people: time, level, what it is about, message.

    >>> record = logging.makeLogRecord({"levelname": "WARNING", "msg": "left out", "created": 0, "node": "parse", "epoch": 3})
    >>> TextFormatter().format(record)
    '1970-01-01 00:00:00 WARNING [epoch 3, parse] left out'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback below it if there is one."""
        when = datetime.fromtimestamp(record.created, UTC)
        named = _in_words(fields_of(record))
        shown = f" [{named}]" if named else ""
        trace = _trace(record)
        text = f"{when:%Y-%m-%d %H:%M:%S} {record.levelname}{shown} {record.getMessage()}"
        return scrubbed(text if trace is None else f"{text}\n{trace}")


class JsonFormatter(logging.Formatter):
    """Lines for machines: a JSON object each, with the fields by name.

    >>> record = logging.makeLogRecord({"levelname": "INFO", "name": "shop", "msg": "hello", "created": 0, "shard": 2})
    >>> JsonFormatter().format(record)
    '{"time": "1970-01-01T00:00:00.000Z", "level": "INFO", "logger": "shop", "message": "hello", "shard": 2}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback is the field ``trace``."""
        when = datetime.fromtimestamp(record.created, UTC)
        shown: dict[str, Any] = {
            "time": f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if (trace := _trace(record)) is not None:
            shown["trace"] = trace
        return scrubbed(json.dumps(shown, default=str, ensure_ascii=False))


FORMATTERS: dict[str, type[logging.Formatter]] = {TEXT: TextFormatter, JSON: JsonFormatter}


def handler_for(form: str) -> logging.Handler:
    """Return what writes lines of a form to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATTERS[form]())
    handler.addFilter(Scrub())
    return handler


def is_set_up() -> bool:
    """Whether the program has set up logging."""
    return bool(logging.getLogger().handlers or logging.getLogger("penstock").handlers)


@contextmanager
def shown_by(handler: logging.Handler) -> Iterator[None]:
    """Let a handler have what is logged, unless the program has set up logging itself."""
    if is_set_up():
        yield
        return
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def _in_words(fields: dict[str, Any]) -> str:
    """Return fields as a person reads them; those that a message says anyway are left out."""
    parts = [f"{name} {fields[name]}" for name in ("epoch", "lane", "shard") if name in fields]
    parts = [*filter(None, (fields.get("application"),)), *parts, *filter(None, (fields.get("node"),))]
    if "topic" in fields:
        parts.append(f"{fields['topic']}-{fields['partition']}@{fields['offset']}")
    return ", ".join(map(str, parts))


def _trace(record: logging.LogRecord) -> str | None:
    if record.exc_info and record.exc_info[1] is not None:
        return "".join(traceback.format_exception(record.exc_info[1])).rstrip()
    return record.exc_text or None
