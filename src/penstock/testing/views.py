"""The view of a store that a test has: over all shards, and writable."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.query.tables import frame_of, rows_of, store_html, table_of
from penstock.record import ValueAndTimestamp, Windowed
from penstock.serde import Serdes
from penstock.state.merged import merged_view
from penstock.state.shards import shard_of
from penstock.state.spec import StoreKind, StoreSpec
from penstock.state.verbs import UpdatingVerbs

if TYPE_CHECKING:
    import pandas


class TestView(UpdatingVerbs):
    """A store as a test sees it: plain values over all shards, and the verbs that write, as in Kafka's driver.

    So a test may fill a store before the first record. What is put into a table's store has no timestamp (−1).
    ``store_of(shard)`` gives the store of a shard to write to, ``stores()`` those of all shards as they are now: stores live as long as
    tasks do, a view for as long as the driver.
    """

    __test__ = False  # pytest would take it for a class of tests

    def __init__(self, spec: StoreSpec, stores: Callable[[], list[Any]], store_of: Callable[[int], Any]) -> None:
        self._spec = spec
        self._stores = stores
        self._of_shard = store_of

    def __getattr__(self, verb: str) -> Any:
        return getattr(merged_view(self._spec, self._stores()), verb)

    def to_pandas(self, limit: int | None = None) -> pandas.DataFrame:
        """Return all rows (at most ``limit``) as a frame, as the stores of an `App` do."""
        return frame_of(table_of(rows_of(self._spec, self), limit=limit))

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook."""
        return store_html(self._spec, self)

    def put(self, key: Any, value: Any, *at: int) -> None:
        """Store a value (``at``: the start of its window, the timestamp of its version); None deletes."""
        if self._spec.timestamped and value is not None:
            value = ValueAndTimestamp(value, -1)
        self._store_of(key).put(key, value, *at)

    def delete(self, key: Any, *at: int) -> Any:
        """Delete a row and return the value it had."""
        if at:
            return self._store_of(key).delete(key, *at)
        return super().delete(key)

    def remove(self, session: Windowed) -> None:
        """Delete a session."""
        self._store_of(session).remove(session)

    def _store_of(self, key: Any) -> Any:
        shards = len(self._stores())
        if shards == 1 or self._spec.kind is StoreKind.SHARED:
            return self._of_shard(0)
        inner = key.key if self._spec.kind is StoreKind.SESSION else key
        return self._of_shard(shard_of((self._spec.key or Serdes.string).serialize(inner), shards))
