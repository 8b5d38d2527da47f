"""The stores over HTTP: what there is, a key, ranges, windows, sessions, versions. Every answer is of one barrier."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from penstock.admin import key_forms, row_forms
from penstock.admin.answers import HEADERS, HttpError, encoded, json_answer
from penstock.admin.control import body_of
from penstock.admin.cursors import CURSOR_MS, PagedScans, Scan, open_scan
from penstock.admin.event_stream import notifier_of
from penstock.admin.inspection import barrier, position_data, served, shard_sizes
from penstock.admin.parameters import LONGEST_WAIT_MS, flag, number, optional_number, position
from penstock.admin.served_app import ServedApp
from penstock.errors import BadKey, UnknownStore, nearest
from penstock.query import queries as q
from penstock.state.keys import MAX_TIME
from penstock.state.spec import StoreKind, StoreSpec

#: rows of a page: by default, and at most
PAGE, MOST_ROWS = 1_000, 10_000
#: bytes of a key in a body
MOST_KEY = 4 << 20
NDJSON = "application/x-ndjson"
#: milliseconds that a stream of rows may take
STREAM_MS = 600_000
#: rows that are read at a time for a stream
STREAM_ROWS = 500

KEYED = (StoreKind.KEY_VALUE, StoreKind.LRU, StoreKind.SHARED)
ROUTES = {
    **dict.fromkeys(KEYED, ("keys/{key}", "range", "prefix/{prefix}")),
    StoreKind.WINDOW: ("windows/{key}", "windows"),
    StoreKind.SESSION: ("sessions/{key}",),
    StoreKind.VERSIONED: ("keys/{key}", "versions/{key}"),
}


def spec_of(request: Request) -> StoreSpec:
    """Return the store that a request names, and that can be read now."""
    running, name = served(request), request.path_params["store"]
    stores = running.app.topology.stores
    if name not in stores:
        raise UnknownStore(f"there is no store {name!r}{nearest(name, stores)}; the topology has {list(stores)}")
    running.need_state()
    return stores[name]


async def at_barrier(request: Request) -> None:
    """Wait until the last barrier has what the request asks for: ``position=``, ``min_epoch=``, ``wait_ms=``."""
    wanted, epoch = position(request), optional_number(request, "min_epoch") or 0
    wait_ms = number(request, "wait_ms", least=0, most=LONGEST_WAIT_MS, default=0)
    if wanted or epoch:
        await notifier_of(request).wait(wanted, epoch, wait_ms)


async def list_stores(request: Request) -> Response:
    """The stores of the topology, and how each can be asked."""
    await at_barrier(request)
    running = served(request)
    found = [_described(running, spec) for spec in running.app.topology.stores.values()]
    return json_answer({**barrier(running), "stores": found})


async def show_store(request: Request) -> Response:
    """One store: kind, serdes, about how many rows and bytes it has here, and how it can be asked."""
    await at_barrier(request)
    running, spec = served(request), spec_of(request)
    (found,) = await running.in_thread(_with_rows, running, [spec], flag(request, "rows"))
    return json_answer({**barrier(running), **found})


async def show_state(request: Request) -> Response:
    """The stores, about how many rows and bytes each has here, what is on the disk, how far the restore is."""
    running = served(request)
    if counted := flag(request, "rows"):
        running.need_state()
    stores = await running.in_thread(_with_rows, running, list(running.app.topology.stores.values()), counted)
    shards = await running.in_thread(shard_sizes, running)
    state = {"state": str(running.app.state), "restore": running.restore()}
    return json_answer({**barrier(running), **state, "stores": stores, "shards": shards})


def _with_rows(running: ServedApp, specs: list[StoreSpec], counted: bool) -> list[dict[str, Any]]:
    """Describe stores, with about how many rows and bytes they have here; ``counted``: exactly, where that can be."""
    sizes, restore = running.sizes(), running.restore() or {"remaining_by_store": {}}
    found = [_described(running, spec) for spec in specs]
    for spec, store in zip(specs, found, strict=True):
        store["rows"], store["bytes"] = sizes.get(spec.name, (None, None))
        store["restore_remaining"] = restore["remaining_by_store"].get(spec.name, 0)
        if counted and spec.kind in KEYED:
            store["rows"] = running.app.store(spec.name).approximate_num_entries()
    return found


def _described(running: ServedApp, spec: StoreSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "kind": spec.kind.value,
        "key": repr(key_forms.key_serde(spec)),
        "value": repr(spec.value),
        "timestamped": spec.timestamped,
        "persistent": spec.persistent,
        "logged": spec.logged,
        "changelog": running.app.topology.changelog_topic(spec.name),
        "global": spec.name in running.app.topology.global_stores,
        "window_size_ms": spec.window_size,
        "retention_ms": spec.retention or spec.history,
        "ttl_ms": spec.ttl,
        "routes": [f"/v1/stores/{spec.name}/{route}" for route in ROUTES.get(spec.kind, ())],
        "changes": running.app.changes.has(spec.name) and spec.kind in ROUTES,
    }


# ---- keys


async def get_key(request: Request) -> Response:
    """The value of a key. 404 if it has none. For keys that are no text: ``/keys?key_json=`` or ``?key_base64=``."""
    spec = spec_of(request)
    return await _value(request, spec, _key_in_path(request, spec))


async def get_key_by_json(request: Request) -> Response:
    """The value of a key that is given as JSON (``key_json=``), or as its bytes (``key_base64=``)."""
    spec = spec_of(request)
    return await _value(request, spec, _key_in_query(request, spec))


async def post_key(request: Request) -> Response:
    """The value of a key that is too long for an address: ``{"key": ...}``, JSON as in ``key_json=``, 4 MB at most."""
    spec = spec_of(request)
    try:
        given = orjson.loads(await body_of(request, MOST_KEY))["key"]
    except (ValueError, TypeError, KeyError):
        raise HttpError(400, "the body has no key", 'send {"key": ...}: JSON, as in key_json=') from None
    return await _value(request, spec, key_forms.from_json(spec, orjson.dumps(given)))


async def _value(request: Request, spec: StoreSpec, key: Any) -> Response:
    await at_barrier(request)
    running = served(request)
    query = key_query(spec, key)
    result = _checked(spec, query, running.need_queries().query_at_once)
    if result is None:
        result = await running.in_thread(_checked, spec, query, running.app.query)
    at = {"epoch": result.epoch, "position": position_data(result.position)}
    if not result.found:
        raise no_such_key(spec, at)
    return json_answer({**at, "found": True, "key": key, **row_forms.value_form(result.value)})


def key_query(spec: StoreSpec, key: Any) -> q.Query:
    """Return the query for a key that a kind of store answers with the most."""
    if spec.kind is StoreKind.VERSIONED:
        return q.VersionedKeyQuery(key)
    return q.TimestampedKeyQuery(key) if spec.timestamped else q.KeyQuery(key)


def no_such_key(spec: StoreSpec, at: dict[str, Any]) -> HttpError:
    """Return the error of a key that is not there. ``at``: epoch and position."""
    return HttpError(404, f"store {spec.name!r} has no such key", "see /range for the keys it has", found=False, **at)


def _checked(spec: StoreSpec, query: q.Query, ask: Callable[[str, q.Query], Any]) -> Any:
    """Ask; a serde of the user's may refuse a key with any exception."""
    try:
        return ask(spec.name, query)
    except (AttributeError, LookupError, ArithmeticError) as error:
        raise BadKey(f"store {spec.name!r}: {type(error).__name__}: {error}") from error


def _key_in_path(request: Request, spec: StoreSpec) -> Any:
    """Return the key in the path, behind store and route. It is taken from the bytes: what is no UTF-8 would be replaced."""
    raw = request.scope["raw_path"].partition(b"/v1/stores/")[2].split(b"/", 2)[2]
    try:
        text = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise HttpError(400, "the key in the path is no UTF-8", "give its bytes: /keys?key_base64=") from None
    if "key_json" in request.query_params or "key_base64" in request.query_params:
        return _key_in_query(request, spec)
    return key_forms.from_text(spec, text)


def _key_in_query(request: Request, spec: StoreSpec) -> Any:
    given = request.query_params
    if "key_json" in given:
        return key_forms.from_json(spec, given["key_json"])
    if "key_base64" in given:
        return key_forms.from_base64(spec, given["key_base64"])
    raise HttpError(400, "no key is given", "give it in the path, /keys/{key}, or as key_json= or key_base64=")


# ---- rows


async def get_range(request: Request) -> Response:
    """Rows in the order of the bytes of their keys, from ``from=`` to ``to=``, both included."""
    spec = spec_of(request)
    lower, upper = (_bound(request, spec, name) for name in ("from", "to"))
    reverse = flag(request, "reverse")
    kind = q.TimestampedRangeQuery if spec.timestamped else q.RangeQuery
    return await _rows(request, spec, kind(lower, upper, reverse=reverse), row_forms.pair_form)


async def get_prefix(request: Request) -> Response:
    """Rows whose key begins with a prefix, by its bytes."""
    spec = spec_of(request)
    prefix = _key_in_path(request, spec)
    return await _rows(request, spec, q.PrefixQuery(prefix), row_forms.pair_form)


async def get_windows(request: Request) -> Response:
    """The windows of a key that start from ``from=`` to ``to=``, milliseconds, both included."""
    spec = spec_of(request)
    key = _key_in_path(request, spec)
    return await _rows(request, spec, q.WindowKeyQuery(key, *_times(request)), row_forms.window_form(spec, key))


async def get_all_windows(request: Request) -> Response:
    """The windows of all keys that start from ``from=`` to ``to=``, milliseconds, both included."""
    return await _rows(request, spec_of(request), q.WindowRangeQuery(*_times(request)), row_forms.pair_form)


async def get_sessions(request: Request) -> Response:
    """The sessions of a key."""
    spec = spec_of(request)
    return await _rows(request, spec, q.SessionQuery(_key_in_path(request, spec)), row_forms.pair_form)


async def get_versions(request: Request) -> Response:
    """The versions of a key, the oldest first, or the one that was valid at ``as_of=``."""
    spec = spec_of(request)
    key, as_of = _key_in_path(request, spec), optional_number(request, "as_of")
    if as_of is None:
        since, until = optional_number(request, "from"), optional_number(request, "to")
        return await _rows(request, spec, q.MultiVersionedKeyQuery(key, since, until), row_forms.version_form(key))
    await at_barrier(request)
    running = served(request)
    result = await running.in_thread(_checked, spec, q.VersionedKeyQuery(key, as_of), running.app.query)
    rows = [{"key": key, **row_forms.value_form(result.value)}] if result.found else []
    at = {"epoch": result.epoch, "position": position_data(result.position)}
    return json_answer({**at, "cursor": None, "rows": rows})


def _bound(request: Request, spec: StoreSpec, name: str) -> Any:
    given = request.query_params
    if f"{name}_json" in given:
        return key_forms.from_json(spec, given[f"{name}_json"])
    return key_forms.from_text(spec, given[name]) if given.get(name) else None


def _times(request: Request) -> tuple[int, int]:
    since = number(request, "from", least=0, most=MAX_TIME, default=0)
    return since, number(request, "to", least=0, most=MAX_TIME, default=MAX_TIME)


async def _rows(request: Request, spec: StoreSpec, query: q.Query, form: row_forms.Form) -> Response:
    """Answer with a page of rows, or with all of them, a line each."""
    running, cursors = served(request), request.app.state.cursors
    limit = number(request, "limit", least=1, most=MOST_ROWS, default=PAGE)
    asked = f"{spec.name} {query!r}"
    if token := request.query_params.get("cursor"):
        page = await running.in_thread(cursors.next, token, asked, limit)
        return Response(page, 200, HEADERS, "application/json")
    await at_barrier(request)
    cursors.make_room()
    if NDJSON in request.headers.get("accept", ""):
        scan = await running.in_thread(_scan, running, spec, query, form, STREAM_MS)
        return StreamingResponse(_lines(running, scan), 200, HEADERS, NDJSON)
    page = await running.in_thread(partial(_first_page, running, cursors, spec, query, form, asked, limit))
    return Response(page, 200, HEADERS, "application/json")


def _first_page(
    running: ServedApp,
    cursors: PagedScans,
    spec: StoreSpec,
    query: q.Query,
    form: row_forms.Form,
    asked: str,
    limit: int,
) -> bytes:
    return cursors.first(_scan(running, spec, query, form, CURSOR_MS), asked, limit)


def _scan(running: ServedApp, spec: StoreSpec, query: q.Query, form: row_forms.Form, timeout_ms: int) -> Scan:
    return open_scan(running, lambda snapshot: snapshot.query(spec.name, query), form, timeout_ms)


async def _lines(running: ServedApp, scan: Scan) -> AsyncIterator[bytes]:
    """Yield a line that says the barrier, a line for each row, and one that says that it is the end."""
    count, more = 0, True
    try:
        yield encoded({"epoch": scan.epoch, "position": scan.position}) + b"\n"
        while more:
            rows, more = await running.in_thread(scan.take, STREAM_ROWS)
            count += len(rows)
            if rows:
                yield b"\n".join(rows) + b"\n"
        yield encoded({"end": True, "rows": count}) + b"\n"
    finally:
        scan.close()
