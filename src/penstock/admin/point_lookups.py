"""Look-ups of a key that are answered where their bytes arrive, in front of uvicorn's parser and starlette's routes.

A look-up takes microseconds; the way through parser, task, middleware and router takes ten times as long, in the process
of the driver. So what is certainly an ordinary ``GET /v1/stores/{store}/keys/{key}``, complete, alone and without
parameters, is answered at once, with the bytes that the ordinary way would give. Anything else, and whatever would have
to wait or goes wrong, is left to the ordinary way, untouched: nothing of it was consumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import h11
import orjson
from starlette.applications import Starlette

from penstock.admin import key_forms, row_forms
from penstock.admin.answers import encoded
from penstock.admin.inspection import position_data
from penstock.admin.served_app import ServedApp
from penstock.admin.stores import key_query, no_such_key
from penstock.query.barriers import Position
from penstock.query.result import QueryResult
from penstock.state.spec import StoreSpec

BEGIN, END, VERSION = b"GET /v1/stores/", b"\r\n\r\n", b" HTTP/1.1"
#: the route, as it is counted in the metrics
ROUTE = "/v1/stores/{store}/keys/{key:path}"
#: bytes of a request that is looked at here
MOST_BYTES = 8 << 10
#: different headers that are remembered: a client sends the same ones with each request
MOST_HEADS = 64
#: headers that ask for more than an answer on a connection that stays open
UNUSUAL = frozenset({b"content-length", b"transfer-encoding", b"connection", b"upgrade", b"expect"})


class LookupAnswer(NamedTuple):
    """What is answered: JSON."""

    status: int
    body: bytes


class PointLookups:
    """Answers look-ups. Used in the event loop only."""

    def __init__(self, asgi: Starlette, is_local: Callable[[str], bool] | None) -> None:
        """``is_local``: tells hosts that may be asked for; requests for others are refused, by the ordinary way."""
        self._running: ServedApp = asgi.state.running
        self._requests: Any = asgi.state.requests
        self._is_local = is_local
        self._specs: Mapping[str, StoreSpec] = self._running.app.topology.stores
        self._heads: dict[bytes, bool] = {}
        self._position: tuple[Position | None, orjson.Fragment] = None, orjson.Fragment(b"null")

    def answer(self, data: bytes) -> LookupAnswer | None:
        """Return the answer to a request; None: it takes the ordinary way."""
        asked = self._asked(data)
        if asked is None:
            return None
        spec, text = asked
        try:
            self._running.need_state()
            key = key_forms.from_text(spec, text)
            result = self._running.need_queries().query_at_once(spec.name, key_query(spec, key))
            found = None if result is None else self._shown(spec, key, result)
        except Exception:  # the ordinary way meets the same, and says what is wrong
            return None
        if found is not None:
            self._requests[ROUTE, str(found.status)] += 1
        return found

    def _asked(self, data: bytes) -> tuple[StoreSpec, str] | None:
        """Return the store and the text of the key, if this is one whole request for a key."""
        if len(data) > MOST_BYTES or not data.startswith(BEGIN) or not data.endswith(END):
            return None
        line, _, head = data.partition(b"\r\n")
        name, _, rest = line[len(BEGIN) :].partition(b"/keys/")
        key = rest.removesuffix(VERSION)
        spec = self._specs.get(name.decode("latin-1"))
        if spec is None or not key or len(key) == len(rest) or not self._is_usual(head):
            return None
        text = key.decode("latin-1")
        if not text.isascii() or not text.isprintable() or any(mark in text for mark in " ?#"):
            return None
        if "%" in text:
            try:
                text = unquote_to_bytes(key).decode()
            except UnicodeDecodeError:
                return None
        return spec, text

    def _is_usual(self, head: bytes) -> bool:
        found = self._heads.get(head)
        if found is None:
            if len(self._heads) >= MOST_HEADS:
                self._heads.clear()
            found = self._heads[head] = self._check(head)
        return found

    def _check(self, head: bytes) -> bool:
        """Whether the headers are those of one request without a body, to be answered on a connection that stays."""
        parser = h11.Connection(h11.SERVER)
        parser.receive_data(b"GET / HTTP/1.1\r\n" + head)
        try:
            request, end = parser.next_event(), parser.next_event()
        except h11.RemoteProtocolError:
            return False
        if not isinstance(request, h11.Request) or not isinstance(end, h11.EndOfMessage) or parser.trailing_data[0]:
            return False
        headers = {name.lower(): value for name, value in request.headers}
        if headers.get(b"connection", b"").lower() == b"keep-alive":
            del headers[b"connection"]
        host = headers.get(b"host", b"").decode("latin-1")
        return not headers.keys() & UNUSUAL and (self._is_local is None or self._is_local(host))

    def _shown(self, spec: StoreSpec, key: Any, result: QueryResult) -> LookupAnswer:
        at = {"epoch": result.epoch, "position": self._position_data(result.position)}
        if not result.found:
            return LookupAnswer(404, encoded(no_such_key(spec, at).body()))
        return LookupAnswer(200, encoded({**at, "found": True, "key": key, **row_forms.value_form(result.value)}))

    def _position_data(self, position: Position) -> orjson.Fragment:
        """Return a position as JSON: it is the same for all look-ups at a barrier."""
        if position is not self._position[0]:
            self._position = position, orjson.Fragment(orjson.dumps(position_data(position)))
        return self._position[1]
