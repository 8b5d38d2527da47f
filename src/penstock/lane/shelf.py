"""Files for parcels between tasks that share a machine. Those of an epoch that is over are written over.

A page of a file that is there is written in a tenth of the time that a new one takes: the kernel need not find, clear and free it.

Contract: nobody looks at the rows of an epoch once a task has begun a later one. The driver begins an epoch when the one before is
committed, and then it has handed over all of its rows.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import pyarrow as pa

from penstock.lane.parcel import STAGED, write_stream


class Shelf:
    """The files of one process in a folder. ``unique`` makes their names.

    >>> import tempfile
    >>> from itertools import count
    >>> from penstock.lane.parcel import opened_parcel
    >>> folder, rows = tempfile.TemporaryDirectory(), pa.RecordBatch.from_pydict({"a": [1, 2]})
    >>> shelf = Shelf(folder.name, map(str, count()).__next__)
    >>> shelf.begin(1, "first run")
    >>> shelf.stage([rows]) == shelf.stage([rows]), len(os.listdir(folder.name))
    (False, 2)
    >>> shelf.begin(2, "second run")
    >>> parcel = shelf.stage([rows.slice(1)])
    >>> opened_parcel(parcel)["a"].to_pylist(), len(os.listdir(folder.name))
    ([2], 2)
    """

    __slots__ = ("_epoch", "_folder", "_free", "_token", "_unique", "_used")

    def __init__(self, folder: str, unique: Callable[[], str]) -> None:
        self._folder = folder
        self._unique = unique
        self._epoch, self._token = -1, ""
        self._used: list[str] = []
        self._free: list[str] = []

    def begin(self, epoch: int, token: str) -> None:
        """Be told which run of which epoch a task is of.

        Files that the last epoch had no use for are deleted; so are those of a run that was given up, some task of which may still read.
        """
        if token == self._token:
            return
        over = epoch > self._epoch
        for path in self._free if over else self._free + self._used:
            with contextlib.suppress(FileNotFoundError):  # the driver may have been there
                os.unlink(path)
        self._free = self._used if over else []
        self._used = []
        self._epoch, self._token = epoch, token

    def stage(self, batches: list[pa.RecordBatch]) -> bytes:
        """Leave rows in a file; return the parcel, which is its name."""
        path = self._free.pop() if self._free else os.path.join(self._folder, self._unique())
        self._used.append(path)
        with open(path, "wb", buffering=0, opener=_not_cut_off) as file, pa.PythonFile(file, "w") as sink:
            write_stream(sink, batches)
        return STAGED + os.fsencode(path)


def _not_cut_off(path: str, _flags: int) -> int:
    """Open a file whose old bytes stay behind the new ones: a stream tells where it ends."""
    return os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
