"""Dead letters over HTTP: list, show, redrive. Each request has a client of its own, so that the engine's is never waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from penstock.admin.answers import HttpError, json_answer
from penstock.admin.control import body_of
from penstock.admin.inspection import served
from penstock.admin.parameters import number, optional_number
from penstock.admin.served_app import ServedApp
from penstock.dead_letters.filters import LetterFilter
from penstock.dead_letters.forms import Newest, full_form, line_form, result_form
from penstock.dead_letters.letter import DeadLetter
from penstock.dead_letters.marks import read_marks
from penstock.dead_letters.planning import plan_redrive
from penstock.dead_letters.reading import read_letters, read_some, topic_ends
from penstock.dead_letters.redrive import RedriveResult, redrive
from penstock.errors import TopicError
from penstock.log.kafka import KafkaLog
from penstock.topology.node import SourceNode

#: letters of an answer: by default, and at most; offsets of each partition that are looked at for it
SHOWN, MOST_SHOWN, LOOKED_AT = 100, 1_000, 20_000
#: seconds that a redrive may take; it goes on after that, but nobody is told
REDRIVE_SECONDS = 600.0
#: names in a body, and what their values must be
NAMES: dict[str, type] = {"node": str, "exception": str, "topic": str, "since": int, "all": bool, "dry_run": bool}
JSON_TYPES = {str: "string", int: "integer", bool: "boolean"}
BODY = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "positions": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        **{name: {"type": JSON_TYPES[kind]} for name, kind in NAMES.items()},
    },
}
FORM = 'send {"positions": [[partition, offset], ...]}, or any of node, exception, topic, since, or {"all": true}'


async def list_letters(request: Request) -> Response:
    """The newest dead letters, and how many there are by node and exception; of each partition the last 20,000 offsets are read."""
    running = served(request)
    topic = letters_topic(running)
    given = request.query_params
    chosen = LetterFilter(
        given.get("node"), given.get("exception"), given.get("topic"), optional_number(request, "since")
    )
    limit = number(request, "limit", least=1, most=MOST_SHOWN, default=SHOWN)
    return json_answer(await running.in_thread(_list, running, topic, chosen, limit))


async def show_letter(request: Request) -> Response:
    """Everything about one dead letter: where it came from, stack trace, headers, key and value, decoded where that can be."""
    running = served(request)
    place = request.path_params["partition"], request.path_params["offset"]
    return json_answer(await running.in_thread(_show, running, letters_topic(running), place))


async def redrive_letters(request: Request) -> Response:
    """Write the records of dead letters into their source topics again, each once: those at ``positions``, those that match, or all."""
    running = served(request)
    topic = letters_topic(running)
    chosen, dry_run = wanted(await body_of(request))
    return json_answer(await running.in_thread(partial(_redrive, running, topic, chosen, dry_run=dry_run)))


def letters_topic(running: ServedApp) -> str:
    """Return the dead-letter topic of the application; 404 if it has none."""
    topic: str | None = running.app.config["dead_letter_topic"]
    if topic is None:
        raise HttpError(
            404, "this application keeps no dead letters", "set dead_letter_topic='...', and a policy for it"
        )
    return topic


def wanted(body: bytes) -> tuple[LetterFilter, bool]:
    """Return which letters a request's body means, and whether it only asks what would be done.

    >>> wanted(b'{"positions": [[0, 17]], "dry_run": true}')[0].positions
    frozenset({(0, 17)})
    """
    try:
        given = orjson.loads(body)
        places = given.pop("positions", None)
        positions = None if places is None else frozenset((int(at), int(offset)) for at, offset in places)
        wrong = [name for name, value in given.items() if name not in NAMES or type(value) is not NAMES[name]]
    except (ValueError, TypeError, AttributeError):
        raise HttpError(400, "the body does not say which letters", FORM) from None
    if wrong:
        raise HttpError(400, f"the body has {wrong[0]!r}, which is no such name, or not its kind of value", FORM)
    every, dry_run = given.pop("all", False), given.pop("dry_run", False)
    chosen = LetterFilter(**given, positions=positions)
    if chosen.says_nothing is not every:
        raise HttpError(400, "the body says both all and which letters, or neither", FORM)
    return chosen, dry_run


@contextmanager
def _connected(running: ServedApp) -> Iterator[KafkaLog]:
    config = running.app.config
    log = KafkaLog(config["bootstrap_servers"], config["kafka"], timeout=30)
    try:
        yield log
    except TopicError as error:
        raise HttpError(404, str(error), "see /v1/dead-letters") from error
    finally:
        log.close()


def _list(running: ServedApp, topic: str, chosen: LetterFilter, limit: int) -> dict[str, Any]:
    newest = Newest(limit)
    with _connected(running) as log:
        marks = read_marks(log, topic)
        ends = topic_ends(log, topic)
        for letter in read_letters(log, ends, most=LOOKED_AT):
            if chosen.matches(letter):
                newest.add(line_form(letter, marks.time(letter)), keep=True)
        starts = log.admin.earliest_offsets(ends)
    left_out = any(ends[place] - start > LOOKED_AT for place, start in starts.items())
    letters = [*reversed(newest.forms())]
    kinds = [*newest.kinds()]
    return {"topic": topic, "found": newest.total, "older": left_out, "kinds": kinds, "letters": letters}


def _show(running: ServedApp, topic: str, place: tuple[int, int]) -> dict[str, Any]:
    with _connected(running) as log:
        (letter,) = read_some(log, topic, [place])
        return full_form(letter, read_marks(log, topic).time(letter)) | {"decoded": _decoded(running, letter)}


def _decoded(running: ServedApp, letter: DeadLetter) -> dict[str, Any]:
    """Return key and value as the serdes of the source read them; the error where they cannot."""
    topic = None if letter.source is None else letter.source[0]
    for node in running.app.topology.nodes.values():
        if isinstance(node, SourceNode) and node.reads(topic):
            record = letter.record
            return {"key": _read(node.key, record.key), "value": _read(node.value, record.value)}
    return {}


def _read(serde: Any, data: bytes | None) -> Any:
    try:
        return None if data is None else serde.deserialize(data)
    except Exception as error:  # a serde of the user's may raise anything: that may be why there is a letter
        return {"error": f"{type(error).__name__}: {error}"}


def _redrive(running: ServedApp, topic: str, chosen: LetterFilter, *, dry_run: bool) -> dict[str, Any]:
    with _connected(running) as log:
        plan = plan_redrive(log, topic, chosen)
        result = RedriveResult(len(plan.records), plan.letters, plan.already, tuple(plan.refused))
        if plan.records and not dry_run:
            result = redrive(log, topic, chosen, ends=plan.ends)
    return result_form(topic, result, dry_run=dry_run)
