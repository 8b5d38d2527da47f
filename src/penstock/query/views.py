"""A store as a reader from outside sees it: Kafka's reading verbs, at the last barrier or that of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from penstock.query.reading import Reading
from penstock.query.routing import Routing
from penstock.query.tables import frame_of, rows_of, store_html, table_of
from penstock.state.merged import put_together
from penstock.state.spec import StoreSpec
from penstock.state.verbs import no_verb
from penstock.state.view import BOTH_WAYS, VERBS, read_only

if TYPE_CHECKING:
    import pandas

#: verbs whose first argument is a key
BY_KEY = frozenset(
    {"get", "get_with_timestamp", "history", "fetch_session"}
    | {f"{way}{verb}" for way in BOTH_WAYS for verb in ("fetch", "find_sessions")}
)


class BarrierReader(Protocol):
    """Who opens readings: at the last barrier for each call, or always the same one."""

    def reading(self, shards: Sequence[int]) -> tuple[Reading, bool]:
        """Return a reading that has these shards, and whether it is the caller's to close."""
        ...


class QueryView:
    """The reading verbs of a store. Any thread may call them; a scan stays at the barrier that it began with."""

    def __init__(self, spec: StoreSpec, routing: Routing, reader: BarrierReader) -> None:
        self._spec = spec
        self._routing = routing
        self._reader = reader

    @property
    def name(self) -> str:
        """The store's name."""
        return self._spec.name

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        if verb.startswith("_"):  # copy, pickle and the like ask for what is not there
            raise AttributeError(verb)
        if verb not in VERBS[self._spec.kind]:
            raise no_verb(self._spec, verb, VERBS[self._spec.kind])
        return lambda *args, **options: self._call(verb, args, options)

    def __dir__(self) -> list[str]:
        """For completion: the verbs of this kind of store."""
        return sorted({"name", "to_pandas", *VERBS[self._spec.kind]})

    def to_pandas(self, limit: int | None = None) -> pandas.DataFrame:
        """Return all rows (at most ``limit``) as a frame; windows and timestamps have columns of their own.

        Needs pandas: ``pip install 'penstock-streams[notebook]'``.
        """
        rows = rows_of(self._spec, self)
        try:
            return frame_of(table_of(rows, limit=limit))
        finally:
            rows.close()

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook, as of the last barrier."""
        return store_html(self._spec, self)

    def _call(self, verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        spec, routing = self._spec, self._routing
        shards = routing.of_key(spec, args[0]) if verb in BY_KEY and args else routing.all_of(spec)
        reading, owned = self._reader.reading(shards)
        found = None
        try:
            views = map(read_only, reading.stores(spec, shards))
            found = put_together(spec, verb, [getattr(view, verb)(*args, **options) for view in views])
        finally:
            if owned and not isinstance(found, Iterator):
                reading.close()
        return reading.guarded(found, owned=owned) if isinstance(found, Iterator) else found
