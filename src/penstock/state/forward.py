"""Changed rows of a cached store, forwarded many at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.provenance import Provenance, are_alike, provenance_of
from penstock.record import Origin
from penstock.serde import Serde
from penstock.state.base import Entry
from penstock.state.write_back import writer_of

#: forwards the changed rows of a store as a batch; False, and nothing has happened, if they must go one by one
FlushBatch: TypeAlias = Callable[[Batch], bool]


def forward_entries(
    forward: FlushBatch,
    keys: Column,
    serde: Serde[Any],
    entries: Sequence[Entry],
    *,
    old: list[bytes | None] | None = None,
    times: Sequence[int] | None = None,
    deletes: bool = False,
) -> bool:
    """Forward the new values of changed rows at a time; False, and nothing has happened, if they must go one by one.

    ``old``: the values before, if somebody asks for them. ``times``: those that the updates carry, None: those of the entries.
    ``deletes``: of a row that is deleted it is known that there was one.
    """
    values = [entry[0] for entry in entries]
    if not deletes and any(value is None for value in values):
        return False
    headers = [entry[2] for entry in entries]
    batch = Batch(
        keys,
        Column(data=values, serde=serde, made=True),
        np.array([entry[1] for entry in entries] if times is None else times, dtype=np.int64),
        headers if any(headers) else None,
        _provenance(entries),
        old=None if old is None else Column(data=old, serde=serde),
    )
    return forward(batch)


class _Writers(Sequence[Origin]):
    """The writers of rows; an origin is made when it is asked for."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, at: Any) -> Any:
        return writer_of(self._entries[at][3])


def _provenance(entries: Sequence[Entry]) -> Provenance:
    """Return where the writers of rows are from; as numbers, where they have been by column, too."""
    provenance = provenance_of(_Writers(entries))
    arrays = _arrays(entries)
    if arrays is None:
        return provenance
    return Provenance(provenance.origin, lambda: arrays["index"], lambda: arrays["timestamp"], len(entries), arrays)


def _arrays(entries: Sequence[Entry]) -> Mapping[str, Any] | None:
    """Return the numbers of the writers of rows, None where they are not at hand."""
    writers = [entry[3] for entry in entries]
    if any(writer.__class__ is not tuple for writer in writers):
        return None
    batches: dict[int, Batch] = {id(columns): columns for columns, _ in writers}
    places = np.fromiter((at for _, at in writers), dtype=np.int64, count=len(writers))
    found = [columns.provenance.arrays for columns in batches.values()]
    known = [arrays for arrays in found if arrays is not None]
    if len(known) < len(found) or not are_alike(known):
        return None
    of_batch = [np.arange(len(c.timestamps)) if c.rows is None else c.rows for c in batches.values()]
    if len(known) == 1:
        rows = of_batch[0][places]
        return {name: column[rows] for name, column in known[0].items()}
    numbers = {key: number for number, key in enumerate(batches)}
    batch = np.fromiter((numbers[id(columns)] for columns, _ in writers), dtype=np.int64, count=len(writers))
    starts = np.cumsum([0, *map(len, of_batch)])[:-1]
    rows = starts[batch] + places
    return {name: np.concatenate([a[name][r] for a, r in zip(known, of_batch, strict=True)])[rows] for name in known[0]}
