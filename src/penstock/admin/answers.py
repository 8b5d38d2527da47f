"""What the admin server answers: JSON; an error says what is wrong and what to do about it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
from starlette.responses import Response

from penstock.errors import PenstockError
from penstock.masking import scrubbed
from penstock.serde.protobuf import is_message, shown_message

#: on every answer: what it says holds now, and is what its type says
HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class HttpError(PenstockError):
    """A request that is answered with an error. ``remedy``: what to do, or to write instead."""

    def __init__(
        self, status: int, message: str, remedy: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        self.status = status
        self.remedy = remedy
        self.headers = dict(headers or {})
        self.more = more
        super().__init__(message)

    def body(self) -> dict[str, Any]:
        """Return what is said of it."""
        return {"status": self.status, "error": scrubbed(str(self)), "remedy": self.remedy, **self.more}

    def answer(self) -> Response:
        """Return the answer."""
        return json_answer(self.body(), self.status, self.headers)


def not_ready(
    message: str, remedy: str = "ask again later: see Retry-After, and /health/ready", **more: Any
) -> HttpError:
    """Return the error of what cannot be answered yet."""
    return HttpError(503, message, remedy, headers={"retry-after": "1"}, **more)


def json_answer(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return data as JSON."""
    return Response(encoded(data), status, {**HEADERS, **(headers or {})}, "application/json")


def text_answer(text: str, media_type: str = "text/plain") -> Response:
    """Return a text."""
    return Response(text, 200, HEADERS, media_type)


def encoded(data: Any) -> bytes:
    """Return data as JSON. What JSON does not have is text; bytes are ``{"base64": ...}``.

    >>> encoded({"a": b"x", 5: 1 << 70})
    b'{"a":{"base64":"eA=="},"5":"1180591620717411303424"}'
    """
    try:
        return orjson.dumps(data, default=_plain, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS)
    except TypeError:  # a number that is too large, a text that is no UTF-8, keys of another kind
        return orjson.dumps(_simple(data), option=orjson.OPT_NON_STR_KEYS)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if hasattr(value, "__dict__") and not is_message(value):
        return vars(value)
    return shown_message(value)


def _simple(value: Any) -> Any:
    """Return data that JSON certainly has."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(1 << 63) <= value < (1 << 64) else str(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {str(_simple(key)): _simple(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_asdict"):
        return [_simple(inner) for inner in value]
    return _simple(_plain(value))
