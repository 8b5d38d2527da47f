"""Files for chunks between tasks that share a machine. Those of an epoch that is over are written over.

A page of a file that is there is written in a tenth of the time that a new one takes: the kernel need not find, clear and free it.

Contract: nobody looks at the rows of an epoch once a task has begun a later one. The driver begins an epoch when the one before is
committed, and then it has handed over all of its rows.
"""

from __future__ import annotations

import contextlib
import os
from itertools import count

import pyarrow as pa

from penstock.files import telling_of_a_full_disk
from penstock.protocol.chunk import IN_FILE, write_stream


class ShuffleFiles:
    """The files of this process in a folder. Their names begin with its number, so that the driver knows whose they are.

    >>> import tempfile
    >>> from penstock.protocol.chunk import opened_chunk
    >>> folder, rows = tempfile.TemporaryDirectory(), pa.RecordBatch.from_pydict({"a": [1, 2]})
    >>> files = ShuffleFiles(folder.name)
    >>> files.begin(1, "first run")
    >>> files.stage([rows]) == files.stage([rows]), len(os.listdir(folder.name))
    (False, 2)
    >>> files.begin(2, "second run")
    >>> chunk = files.stage([rows.slice(1)])
    >>> opened_chunk(chunk)["a"].to_pylist(), len(os.listdir(folder.name))
    ([2], 2)
    """

    __slots__ = ("_epoch", "_folder", "_free", "_names", "_token", "_used")

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._names = count()
        self._epoch, self._token = -1, ""
        self._used: list[str] = []
        self._free: list[str] = []

    def begin(self, epoch: int, token: str) -> None:
        """Note which run of which epoch a task is of.

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
        """Leave rows in a file; return the chunk, which is its name."""
        path = self._free.pop() if self._free else f"{self._folder}/{os.getpid()}.{next(self._names)}"
        self._used.append(path)
        size = sum(batch.nbytes for batch in batches)
        with (
            telling_of_a_full_disk(path, size),
            open(path, "wb", buffering=0, opener=_not_cut_off) as file,
            pa.PythonFile(file, "w") as sink,
        ):
            write_stream(sink, batches)
        return IN_FILE + os.fsencode(path)


_shelves: dict[str, ShuffleFiles] = {}


def shuffle_files_in(folder: str) -> ShuffleFiles:
    """Return the shuffle files that this process has in a folder. Applications that share Spark share its workers, too."""
    if folder not in _shelves:
        for gone in [other for other in _shelves if not os.path.exists(other)]:
            del _shelves[gone]
        _shelves[folder] = ShuffleFiles(folder)
    return _shelves[folder]


def _not_cut_off(path: str, _flags: int) -> int:
    """Open a file whose old bytes stay behind the new ones: a stream tells where it ends."""
    return os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
