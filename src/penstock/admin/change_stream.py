"""``/v1/stores/{store}/changes``: what is in a store, then what every barrier changes in it, as server-sent events.

::

    event: snapshot     rows of the store, some hundred at a time          only with snapshot=1
    event: progress     id: 17, {"epoch": 17, "position": ...}             all of epoch 17 and before has been sent
    event: rows         rows that a barrier has changed; "deleted": true where one is gone
    event: progress     id: 18

A client that was disconnected goes on after its last progress mark: ``Last-Event-ID``, as a browser sends it, or ``since=``. 410 if
that is not kept any more (``change_ring``): it begins again with a snapshot. One that reads more slowly than the store changes is
disconnected; the engine does not wait for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from penstock.admin import row_forms
from penstock.admin.answers import HttpError, encoded
from penstock.admin.change_ring import ChangeRing, ChangeRings
from penstock.admin.cursors import Scan, open_scan
from penstock.admin.event_stream import PING, event, next_event, notifier_of, stream
from penstock.admin.inspection import position_data, served
from penstock.admin.notifier import Notifier
from penstock.admin.parameters import flag, optional_number
from penstock.admin.served_app import ServedApp
from penstock.admin.stores import ROUTES, STREAM_MS, spec_of
from penstock.query import queries as q
from penstock.query.barriers import Barrier
from penstock.query.changes import ChangedRow, StoreChanges
from penstock.state.keys import MAX_TIME
from penstock.state.spec import StoreKind, StoreSpec

#: rows of one event
EVENT_ROWS = 500


async def changes(request: Request) -> Response:
    """What every barrier changes in a store, after its rows if ``snapshot=1`` (server-sent events)."""
    running, spec, notifier = served(request), spec_of(request), notifier_of(request)
    _check(running, spec)
    since, snapshot = _since(request), flag(request, "snapshot")
    if snapshot and since is None and spec.kind is StoreKind.VERSIONED:
        raise HttpError(
            400, "rows of a versioned store cannot be listed", "leave snapshot=1 out, and ask /versions/{key}"
        )
    notifier.check_room()
    rings: ChangeRings = request.app.state.rings
    loop = running.need_loop()
    ring = await rings.use(spec.name, lambda: loop.committed.epoch)
    _check_kept(ring, since, running)
    follower = Follower(running, notifier, rings, ring, spec)
    return stream(follower.events(since, snapshot=snapshot and since is None))


def _check(running: ServedApp, spec: StoreSpec) -> None:
    if spec.kind not in ROUTES:
        raise HttpError(
            400, f"store {spec.name!r} ({spec.kind.value}) holds rows of the engine", "follow another store"
        )
    if not running.app.changes.has(spec.name):
        raise HttpError(
            400,
            f"store {spec.name!r} has no changelog of its own, so its changes are not known",
            "read the topic that it is made of, or give the store logged=True",
        )


def _since(request: Request) -> int | None:
    """Return the epoch to go on after."""
    last = request.headers.get("last-event-id", "")
    if last.isdecimal() and len(last) < 19:
        return int(last)
    return optional_number(request, "since")


def _check_kept(ring: ChangeRing, since: int | None, running: ServedApp) -> None:
    if since is None:
        return
    last = running.app.barriers.last
    newest = 0 if last is None else last.epoch
    if not ring.start <= since <= newest:
        raise HttpError(
            410,
            f"changes are kept of the epochs from {ring.start + 1} to {newest}, not of those after {since}",
            "begin again with snapshot=1, and without since= and Last-Event-ID",
        )


class Follower:
    """One client of a ring."""

    def __init__(
        self, running: ServedApp, notifier: Notifier, rings: ChangeRings, ring: ChangeRing, spec: StoreSpec
    ) -> None:
        self._running = running
        self._notifier = notifier
        self._rings = rings
        self._ring = ring
        self._spec = spec
        self._form = safe_form(spec)

    async def events(self, since: int | None, *, snapshot: bool) -> AsyncIterator[bytes]:
        """Yield what is sent to the client. It subscribes before the snapshot is taken, so that no barrier is missed."""
        self._rings.enter(self._ring)
        try:
            async with self._notifier.subscribed() as subscriber:
                at = self._ring.reached if since is None else since
                if snapshot:
                    scan = await self._running.in_thread(scan_all, self._running, self._spec)
                    async for part in self._snapshot(scan):
                        yield part
                    at = scan.epoch
                while True:
                    async for number, part in self._changes(at):
                        yield part
                        at = number or at
                    if at < self._ring.start:
                        yield event("dropped", {"reason": "the store changes faster than this client reads"})
                        return
                    told = await next_event(subscriber)
                    if told is None:
                        return
                    if told[0] == "ping":
                        yield PING
                    elif told[0] == "epoch" and told[1].epoch > at and self._ring.after(at) is None:
                        at = told[1].epoch
                        yield progress(told[1])
        finally:
            self._rings.leave(self._ring)

    async def _snapshot(self, scan: Scan) -> AsyncIterator[bytes]:
        more = True
        try:
            while more:
                rows, more = await self._running.in_thread(scan.take, EVENT_ROWS)
                if rows:
                    yield b"event: snapshot\ndata: [" + b",".join(rows) + b"]\n\n"
        finally:
            scan.close()
        yield event("progress", {"epoch": scan.epoch, "position": scan.position}, scan.epoch)

    async def _changes(self, at: int) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the changes after an epoch that are kept; with a progress mark its epoch, else 0."""
        while at >= self._ring.start and (found := self._ring.after(at)) is not None:
            for part in found.parts:
                for rows in pieces(part):
                    yield 0, await self._running.in_thread(self._encoded, rows)
            at = found.barrier.epoch
            yield at, progress(found.barrier)

    def _encoded(self, rows: StoreChanges) -> bytes:
        return b"event: rows\ndata: [" + b",".join(encoded(self._form(row)) for row in rows) + b"]\n\n"


def progress(barrier: Barrier) -> bytes:
    """Return the mark that says that all of an epoch has been sent."""
    data = {"epoch": barrier.epoch, "position": position_data(barrier.position)}
    return event("progress", data, barrier.epoch)


def pieces(changes: StoreChanges) -> Iterator[StoreChanges]:
    """Yield changes some rows at a time."""
    for start in range(0, len(changes), EVENT_ROWS):
        yield replace(changes, rows=changes.rows.slice(start, EVENT_ROWS))


def safe_form(spec: StoreSpec) -> Callable[[ChangedRow], dict[str, Any]]:
    """Return the form of a row; of one that the serdes refuse, its bytes."""
    form = row_forms.change_form(spec)

    def safe(row: ChangedRow) -> dict[str, Any]:
        try:
            return form(row)
        except Exception as error:
            return {"key": row.key, "value": row.value, "timestamp": row.timestamp, "error": str(error)}

    return safe


def scan_all(running: ServedApp, spec: StoreSpec) -> Scan:
    """Return all rows of a store at the last barrier."""

    def rows(snapshot: Any) -> Any:
        if spec.kind is StoreKind.SESSION:
            return snapshot.store(spec.name).find_sessions_range(None, None, 0, MAX_TIME)
        if spec.kind is StoreKind.WINDOW:
            return snapshot.query(spec.name, q.WindowRangeQuery(0, MAX_TIME))
        kind = q.TimestampedRangeQuery if spec.timestamped else q.RangeQuery
        return snapshot.query(spec.name, kind())

    return open_scan(running, rows, row_forms.pair_form, STREAM_MS)
