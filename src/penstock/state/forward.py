"""Changed rows of a cached store, forwarded many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.record import Origin
from penstock.serde import Serde
from penstock.serde.columns import Column, Columns, Commits, OnColumns, spots_of
from penstock.state.base import Entry
from penstock.state.write_back import writer_of


def forward_columns(forward: OnColumns, columns: Columns) -> bool:
    """Forward records at a time; False, and nothing has happened, if they must go one by one."""
    commits: Commits = []
    try:
        forward(columns, commits)
    except Exception:  # whatever it is: one by one it is told of with its node and record
        return False
    for commit in commits:
        commit()
    return True


def forward_entries(forward: OnColumns, keys: Column, serde: Serde[Any], entries: Sequence[Entry]) -> bool:
    """Forward the new values of changed rows at a time; False, and nothing has happened, if they must go one by one."""
    values = [entry[0] for entry in entries]
    if any(value is None for value in values):
        return False
    headers = [entry[2] for entry in entries]
    columns = Columns(
        keys,
        Column(data=values, serde=serde, made=True),
        np.array([entry[1] for entry in entries], dtype=np.int64),
        headers if any(headers) else None,
        spots_of(_Writers(entries)),
    )
    return forward_columns(forward, columns)


class _Writers(Sequence[Origin]):
    """The writers of rows; an origin is made when it is asked for."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, at: Any) -> Any:
        return writer_of(self._entries[at][3])
