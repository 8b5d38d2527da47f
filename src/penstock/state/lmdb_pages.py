"""Checksums of the pages of an LMDB environment, beside it: a damaged file is found before LMDB maps it.

::

    pages     magic (4 bytes)  crc of the rest (4)  transaction (8)  { crc of a page (4 bytes; 0: not in use) }

LMDB has no checksums: a flipped bit in a page is a wrong row, and one in a pointer ends the process. Its pages are copied on write,
and that is what makes checksums cheap: the pages of a transaction are those that can be reached from its roots and were not in use
before it, and the pages that it freed are listed under its number. So a commit costs the pages that it wrote, and only ``check``
reads the whole file.

Invariant: the table of a transaction has the checksum of every page that is reachable from its two roots, and of both meta pages.

Layout of LMDB's file (``mdb.c``, version 1 of the format): pages 0 and 1 are the metas of the last two transactions; a branch page has
nodes with page numbers, a leaf page those with values; a value may be in pages of its own, or the record of a named database.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from penstock.files import telling_of_a_full_disk, write_private

logger = logging.getLogger("penstock.state")

NAME = "pages"
#: the file that names the run of an application that has checked the environment
CHECKED = "checked"

_MAGIC = b"PSM1"
_HEAD = Struct("=4sIQ")
#: page number, pad, flags, end of the node pointers, begin of the nodes
_PAGE = Struct("=QHHHH")
#: magic, version, address, size of the map
_META = Struct("=IIQQ")
#: pad, flags, depth, branch pages, leaf pages, overflow pages, entries, root
_DATABASE = Struct("=IHHQQQQQ")
#: last page, transaction
_LAST = Struct("=QQ")
#: low and high half of the size, or of the page number, flags, size of the key
_NODE = Struct("=HHHH")
_COUNT = Struct("=I")
_NUMBER = Struct("=Q")

_LMDB, _LMDB_VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF = 1, 2
_BIG, _NAMED = 1, 2
_NONE = (1 << 64) - 1
#: numbers of pages
Pages: TypeAlias = Any
_NO_PAGES = np.zeros(0, np.uint64)
#: bytes that are read at a time to check a file
_CHUNK = 1 << 20


class Damaged(Exception):
    """A file is not what was written."""


class _Root(NamedTuple):
    """A database: where it begins, and whether its values may have pages of their own."""

    page: int
    depth: int
    has_big_values: bool


class _Meta(NamedTuple):
    """What a meta page says."""

    transaction: int
    page_size: int
    last_page: int
    free: _Root
    main: _Root


class PageSums:
    """The checksums of one environment's pages. Whoever writes to the environment is alone (a lock of the shard)."""

    def __init__(self, folder: str) -> None:
        self._data, self._file = f"{folder}/data.mdb", f"{folder}/{NAME}"
        self._transaction: int | None = None
        self._saved: int | None = None
        self._table = np.zeros(0, np.uint32)
        self._page_size = 0

    def follow(self) -> None:
        """Observe the last transaction: to be called after each one."""
        descriptor = os.open(self._data, os.O_RDONLY)
        try:
            meta = _newest_meta(descriptor)
            if meta.transaction != self._transaction:
                self._take_in(descriptor, meta)
        finally:
            os.close(descriptor)

    def save(self) -> None:
        """Write the table, unless it is written."""
        if self._transaction is None or self._saved == self._transaction:
            return
        rest = _NUMBER.pack(self._transaction) + self._table.tobytes()
        data = _MAGIC + _COUNT.pack(crc32(rest)) + rest
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            with telling_of_a_full_disk(self._file, len(data)):
                if os.pwrite(descriptor, data, 0) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.ftruncate(descriptor, len(data))
        finally:
            os.close(descriptor)
        self._saved = self._transaction

    def check(self) -> None:
        """Compare the whole file with the table; raises ``Damaged``."""
        self._load()
        with open(self._data, "rb", buffering=0) as file:
            meta = _newest_meta(file.fileno())
            if meta.transaction != self._transaction:
                raise Damaged(f"it is at transaction {meta.transaction}, its checksums at {self._transaction}")
            size, table = meta.page_size, self._table.tolist()
            pages = len(table)
            per_chunk = max(1, _CHUNK // size)
            for first in range(0, pages, per_chunk):
                chunk = memoryview(file.read(per_chunk * size))
                for number in range(first, min(first + per_chunk, pages)):
                    known, at = table[number], (number - first) * size
                    if known and _sum(chunk[at : at + size]) != known:
                        raise Damaged(f"page {number} does not match its checksum")

    def _take_in(self, descriptor: int, meta: _Meta) -> None:
        if self._transaction != meta.transaction - 1:  # another process has written since
            try:
                self._load()
            except Damaged:
                self._transaction = None
            if self._transaction == meta.transaction:
                return
        self._page_size = meta.page_size
        if self._transaction == meta.transaction - 1:
            freed = self._freed(descriptor, meta)
            self._table[freed[freed < len(self._table)]] = 0
        else:
            self._table = np.zeros(0, np.uint32)
        missing = meta.last_page + 1 - len(self._table)
        if missing > 0:
            self._table = np.append(self._table, np.zeros(max(missing, len(self._table) // 4), np.uint32))
        for number in (0, 1):
            self._table[number] = _sum(self._read(descriptor, number))
        self._walk(descriptor, meta.free.page, meta.free.depth, meta.free.has_big_values)
        self._walk(descriptor, meta.main.page, meta.main.depth, True)
        self._transaction = meta.transaction

    def _walk(self, descriptor: int, number: int, depth: int, looks_into_leaves: bool) -> None:
        """Sum up the pages below one that are new."""
        if number == _NONE or self._table[number]:
            return
        page = self._read(descriptor, number)
        self._table[number] = _sum(page)
        if depth > 1:
            children = _children(page)
            new = children[self._table[children] == 0].tolist()
            if depth == 2 and not looks_into_leaves:
                self._sum_pages(descriptor, new)
                return
            for child in new:
                self._walk(descriptor, child, depth - 1, looks_into_leaves)
        elif looks_into_leaves:
            self._look_into(descriptor, page)

    def _sum_pages(self, descriptor: int, numbers: list[int]) -> None:
        size = self._page_size
        for number in numbers:
            self._table[number] = crc32(os.pread(descriptor, size, number * size)) or 1

    def _look_into(self, descriptor: int, leaf: bytes) -> None:
        """Go on from a leaf page: values with pages of their own, named databases."""
        for at in _places(leaf).tolist():
            _, _, flags, key_size = _NODE.unpack_from(leaf, at)
            value = at + _NODE.size + key_size
            if flags & _BIG:
                self._sum_big(descriptor, _NUMBER.unpack_from(leaf, value)[0])
            elif flags & _NAMED:
                root = _root(leaf, value)
                self._walk(descriptor, root.page, root.depth, root.has_big_values)

    def _sum_big(self, descriptor: int, first: int) -> None:
        """Sum up the pages of a large value."""
        if self._table[first]:
            return
        size = self._page_size
        head = self._read(descriptor, first)
        pages = _COUNT.unpack_from(head, 12)[0]
        data = memoryview(os.pread(descriptor, pages * size, first * size))
        for index in range(pages):
            self._table[first + index] = _sum(data[index * size : (index + 1) * size])

    def _freed(self, descriptor: int, meta: _Meta) -> Pages:
        """Return the pages that the transaction has freed: the last record of the database of free pages, if it is of this one."""
        number, depth = meta.free.page, meta.free.depth
        if number == _NONE:
            return _NO_PAGES
        page = self._read(descriptor, number)
        for _ in range(depth - 1):
            page = self._read(descriptor, int(_children(page)[-1]))
        at = int(_places(page)[-1])
        low, high, flags, key_size = _NODE.unpack_from(page, at)
        if _NUMBER.unpack_from(page, at + _NODE.size)[0] != meta.transaction:
            return _NO_PAGES
        size, at = low | high << 16, at + _NODE.size + key_size
        if flags & _BIG:
            first = _NUMBER.unpack_from(page, at)[0]
            data = os.pread(descriptor, size, first * self._page_size + _PAGE.size)
        else:
            data = page[at : at + size]
        return np.frombuffer(data, np.uint64, _NUMBER.unpack_from(data)[0], offset=8)

    def _read(self, descriptor: int, number: int) -> bytes:
        return os.pread(descriptor, self._page_size, number * self._page_size)

    def _load(self) -> None:
        try:
            with open(self._file, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            raise Damaged("it has no checksums") from None
        if len(data) < _HEAD.size or len(data) % 4 or data[:4] != _MAGIC:
            raise Damaged("the file of its checksums is damaged")
        _, told, transaction = _HEAD.unpack_from(data)
        if crc32(memoryview(data)[8:]) != told:
            raise Damaged("the file of its checksums is damaged")
        self._transaction = self._saved = transaction
        self._table = np.frombuffer(data, np.uint32, offset=_HEAD.size).copy()


def heal(folder: Path, run: str) -> bool:
    """Throw away an environment that is not what was written, so that it is restored from its changelog; return whether it was.

    To be called under the shard's lock, by a process that does not have it open. It is checked once in a run of an application: a
    process of the same run that ends while it writes leaves checksums that are behind, and a state that can be trusted. An empty ``run`` is
    always another one.
    """
    mark, data = folder / CHECKED, folder / "data.mdb"
    if not data.exists() or (run and mark.exists() and mark.read_bytes() == run.encode()):
        return False
    try:
        PageSums(str(folder)).check()
    except Damaged as error:
        logger.warning(
            "the state in %s is thrown away and restored from its changelog: %s "
            "(the file was damaged, or the process that wrote it was killed)",
            folder,
            error,
        )
        shutil.rmtree(folder)
        return True
    finally:
        if run and folder.exists():
            write_private(mark, run)
    return False


def _sum(page: bytes | memoryview) -> int:
    return crc32(page) or 1


def _places(page: bytes) -> Any:
    """Return where the nodes of a page are."""
    return np.frombuffer(page, np.uint16, (_PAGE.unpack_from(page)[3] - _PAGE.size) // 2, offset=_PAGE.size)


def _children(page: bytes) -> Pages:
    """Return the pages that the nodes of a branch page name: three numbers of 16 bits each."""
    words, at = np.frombuffer(page, np.uint16), _places(page) >> 1
    low, high, higher = (words[at + index].astype(np.uint64) for index in range(3))
    return low | high << np.uint64(16) | higher << np.uint64(32)


def _root(data: bytes, at: int) -> _Root:
    _, _, depth, _, _, big, _, page = _DATABASE.unpack_from(data, at)
    return _Root(page, depth, big > 0)


def _newest_meta(descriptor: int) -> _Meta:
    """Return the meta of the last transaction; raises ``Damaged`` where there is none."""
    first = _meta(os.pread(descriptor, 4096, 0))
    second = _meta(os.pread(descriptor, 4096, first.page_size))
    return max(first, second, key=lambda meta: meta.transaction)


def _meta(page: bytes) -> _Meta:
    size = _PAGE.size + _META.size + 2 * _DATABASE.size + _LAST.size
    if len(page) < size:
        raise Damaged("the file is too short")
    magic, version, _, _ = _META.unpack_from(page, at := _PAGE.size)
    if (magic, version) != (_LMDB, _LMDB_VERSION):
        raise Damaged("a meta page is damaged")
    at += _META.size
    page_size = _DATABASE.unpack_from(page, at)[0]
    if page_size < 512 or page_size > 1 << 16:
        raise Damaged("a meta page is damaged")
    last_page, transaction = _LAST.unpack_from(page, at + 2 * _DATABASE.size)
    return _Meta(transaction, page_size, last_page, _root(page, at), _root(page, at + _DATABASE.size))
