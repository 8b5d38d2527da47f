"""A reading: some shards at one barrier, held by one reader until it closes them, or its deadline does.

What a reading gives out (values, scans) is of its barrier, whatever is committed meanwhile. A deadline takes effect
at a barrier, because that is when pages that are held begin to cost; after it the reader is told so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from penstock.clock import stopwatch_us
from penstock.errors import SnapshotClosed
from penstock.protocol.request import EpochRequest
from penstock.query.barriers import Barrier
from penstock.query.shard_views import ShardView, ShardViews
from penstock.state.spec import StoreSpec
from penstock.state.verbs import Rows


class Reading:
    """Shards at one barrier. Any thread may read; closing is done once."""

    def __init__(
        self,
        barrier: Barrier,
        request: EpochRequest,
        held: Mapping[int, ShardView],
        views: ShardViews,
        timeout_ms: int,
        on_close: Callable[[Reading], None],
    ) -> None:
        self.barrier = barrier
        self._request = request
        self._held = held
        self._views = views
        self._timeout_ms = timeout_ms
        self.expires_us = stopwatch_us() + 1000 * timeout_ms
        self._on_close = on_close
        self._lock = threading.Lock()
        self._closed = False

    def stores(self, spec: StoreSpec, shards: Sequence[int]) -> list[Any]:
        """Return a store in each of some shards, to be read."""
        self.check()
        return [self._held[shard].store(spec, self._request) for shard in shards]

    def check(self) -> None:
        """Raise `SnapshotClosed` if it may not be read any more."""
        if self._closed:
            late = stopwatch_us() >= self.expires_us
            why = (
                f"its time of {self._timeout_ms} ms is over" if late else "it was closed, or the application has ended"
            )
            raise SnapshotClosed(
                f"the snapshot of epoch {self.barrier.epoch} cannot be read any more: {why}. Take a new one"
                + (
                    ", with a longer timeout= if it is to be read for longer (setting snapshot_timeout_ms)"
                    if late
                    else ""
                )
            )

    def guarded(self, rows: Iterator[Any], *, owned: bool) -> Rows:
        """Return rows that end with this reading; ``owned``: and this with them."""
        return OwnedRows(rows, self) if owned else ReadRows(rows, self)

    def close(self) -> None:
        """Give the shards back; nothing is read any more."""
        if self._close():
            for view in self._held.values():
                self._views.release(view)
            self._on_close(self)

    def end(self) -> None:
        """Close it without waiting for anybody: by the loop, which tells the views of a barrier next."""
        if self._close():
            for view in self._held.values():
                self._views.abandon(view)

    def _close(self) -> bool:
        with self._lock:
            was_closed, self._closed = self._closed, True
        return not was_closed

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):  # a scan that nobody has ended
            for view in self._held.values():
                self._views.abandon(view)


class ReadRows(Rows):
    """The rows of a scan; after the end of its reading the next one is refused, and no wrong one is given."""

    __slots__ = ("_reading",)

    def __init__(self, rows: Iterator[Any], reading: Reading) -> None:
        super().__init__(rows)
        self._reading = reading

    def __next__(self) -> Any:
        self._reading.check()
        return next(self._rows)


class OwnedRows(ReadRows):
    """A scan with a reading of its own, which ends with it: at the last row, or when it is closed or forgotten."""

    __slots__ = ("_ended",)

    def __init__(self, rows: Iterator[Any], reading: Reading) -> None:
        super().__init__(rows, reading)
        self._ended = False

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        try:
            return super().__next__()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the scan, and give back what it held."""
        self._ended = True
        super().close()
        self._reading.close()
