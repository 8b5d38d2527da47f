"""Pages of a scan. A cursor owns a snapshot, so that all pages are of one epoch, until the last one or its deadline."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any

from penstock.admin.answers import HttpError, encoded, not_ready
from penstock.admin.inspection import position_data
from penstock.admin.row_forms import Form
from penstock.admin.served_app import ServedApp
from penstock.clock import stopwatch_us

#: cursors at a time, and milliseconds for which one may be used
MOST_CURSORS, CURSOR_MS = 32, 60_000
#: bytes of the rows of a page, as JSON: a page ends with the row that reaches it
PAGE_BYTES = 4 << 20


class Scan:
    """Rows of a query on a snapshot of its own, as JSON; ``close`` gives the snapshot back."""

    def __init__(self, snapshot: Any, rows: Any, form: Form) -> None:
        self.epoch: int = snapshot.epoch
        self.position = position_data(snapshot.position)
        self._snapshot = snapshot
        self._rows: Iterator[Any] = iter(rows)
        self._form = form
        self._ahead: bytes | None = None

    def take(self, limit: int) -> tuple[list[bytes], bool]:
        """Return the next rows, and whether there are more."""
        found: list[bytes] = []
        size = 0
        while len(found) < limit and size < PAGE_BYTES:
            row = self._next()
            if row is None:
                return found, False
            found.append(row)
            size += len(row)
        self._ahead = self._next()
        return found, self._ahead is not None

    def _next(self) -> bytes | None:
        if self._ahead is not None:
            row, self._ahead = self._ahead, None
            return row
        found = next(self._rows, None)
        return None if found is None else encoded(self._form(found))

    def close(self) -> None:
        """Give back what it holds."""
        self._snapshot.close()


def open_scan(running: ServedApp, rows_of: Callable[[Any], Any], form: Form, timeout_ms: int) -> Scan:
    """Return a scan of rows of a snapshot, which is given back if there are none to be had."""
    snapshot = running.app.snapshot(timeout=timeout_ms)
    try:
        return Scan(snapshot, rows_of(snapshot), form)
    except BaseException:
        snapshot.close()
        raise


class PagedScan:
    """A scan between two pages. The last page may be asked for once more: its answer may have been lost."""

    def __init__(self, scan: Scan, asked: str) -> None:
        self.scan = scan
        #: what was asked: a cursor goes on with that only
        self.asked = asked
        self.number = 0
        self.last: bytes = b""
        #: the last page was read: the snapshot is given back, the page may be asked for again
        self.done = False
        self.until_us = stopwatch_us() + CURSOR_MS * 1000
        self.lock = threading.Lock()


class PagedScans:
    """The cursors of a server. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, PagedScan] = {}

    def first(self, scan: Scan, asked: str, limit: int) -> bytes:
        """Return the first page of a scan."""
        cursor = PagedScan(scan, asked)
        return self._page(secrets.token_urlsafe(12), cursor, limit)

    def next(self, token: str, asked: str, limit: int) -> bytes:
        """Return the page that a cursor names; raise if it is not kept any more."""
        name, _, number = token.rpartition(".")
        self._end_late_ones()
        with self._lock:
            cursor = self._open.get(name)
        if cursor is None or not number.isdecimal():
            raise _gone(f"the cursor {token[:40]!r} is not known any more: it lasts {CURSOR_MS // 1000} s")
        if cursor.asked != asked:
            raise HttpError(400, "the cursor is of another request", "give it with the parameters that it came with")
        with cursor.lock:
            if int(number) == cursor.number - 1:
                return cursor.last
            if int(number) != cursor.number:
                raise _gone(f"the page {number} of this cursor was read already")
            return self._page(name, cursor, limit)

    def make_room(self) -> None:
        """Raise if there may be no more cursors."""
        self._end_late_ones()
        with self._lock:
            if len(self._open) >= MOST_CURSORS:
                self._open = {name: cursor for name, cursor in self._open.items() if not cursor.done}
            if len(self._open) >= MOST_CURSORS:
                raise not_ready(f"there are {MOST_CURSORS} cursors already", "read them to their ends, or ask later")

    def close(self) -> None:
        """End all cursors."""
        with self._lock:
            held, self._open = list(self._open.values()), {}
        for cursor in held:
            cursor.scan.close()

    def _page(self, name: str, cursor: PagedScan, limit: int) -> bytes:
        try:
            rows, more = cursor.scan.take(limit)
        except BaseException:
            self._end(name, cursor)
            raise
        cursor.number += 1
        token = f"{name}.{cursor.number}" if more else None
        head = encoded({"epoch": cursor.scan.epoch, "position": cursor.scan.position, "cursor": token})
        cursor.last = head[:-1] + b',"rows":[' + b",".join(rows) + b"]}"
        if more:
            with self._lock:
                self._open[name] = cursor
        else:
            cursor.done = True
            cursor.scan.close()
        return cursor.last

    def _end(self, name: str, cursor: PagedScan) -> None:
        with self._lock:
            self._open.pop(name, None)
        cursor.scan.close()

    def _end_late_ones(self) -> None:
        now = stopwatch_us()
        with self._lock:
            late = [(name, cursor) for name, cursor in self._open.items() if cursor.until_us <= now]
        for name, cursor in late:
            self._end(name, cursor)


def _gone(message: str) -> HttpError:
    return HttpError(410, message, "begin again without cursor=")
