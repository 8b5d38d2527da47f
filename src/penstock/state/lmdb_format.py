"""How rows lie in an LMDB environment, and when its folder can be trusted. No LMDB here: only bytes and files.

::

    directory   map name (UTF-8) → slot { run }, newest first (4 bytes each, big-endian); 0x00 → generation (8 bytes), moved on by
                every change
    runs        run (4 bytes, big-endian) → many rows of one map, older than those in its slot (``runs``)
    <slot>      key' → value; key' = 0x00 key where the key is empty or begins with 0x00, else key (LMDB has no empty key)
    <slot>+     first 511 bytes of key' → bucket: all rows whose key' is longer than 510 bytes (LMDB's limit is 511)
    bucket      { key length (4 bytes)  value length (4 bytes)  key  value }, in key order

Environments are written without sync: a process may die at any time, but a machine may not. So the folder holds the
kernel's boot id, and a folder from before the last boot is thrown away (the changelog has everything).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from struct import Struct

from penstock.files import private_folder, write_private

LONG = 511  # a stored key of this length or more lives in a bucket
PLAIN = b"\x01"  # keys from here on are stored as they are; those before begin with 0x00, or are empty

_SIZES = Struct(">II")
_NUMBER = Struct(">I")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def stored_key(key: bytes) -> bytes:
    """Return the key as LMDB gets it; keeps the order of keys.

    >>> stored_key(b"a"), stored_key(b""), stored_key(b"\\0a")
    (b'a', b'\\x00', b'\\x00\\x00a')
    """
    return key if key and key[0] else b"\x00" + key


def user_key(stored: bytes) -> bytes:
    """Undo `stored_key`."""
    return stored if stored[0] else stored[1:]


def run_key(number: int) -> bytes:
    """Return the key of a run.

    >>> run_key(258)
    b'\\x00\\x00\\x01\\x02'
    """
    return _NUMBER.pack(number)


def pack_entry(slot: int, runs: tuple[int, ...]) -> bytes:
    """Return the entry of a map in the directory."""
    return b"".join(map(_NUMBER.pack, (slot, *runs)))


def unpack_entry(raw: bytes) -> tuple[int, tuple[int, ...]]:
    """Undo `pack_entry`.

    >>> unpack_entry(pack_entry(3, (9, 4)))
    (3, (9, 4))
    """
    slot, *runs = (number for (number,) in _NUMBER.iter_unpack(raw))
    return slot, tuple(runs)


def unpack_bucket(raw: bytes) -> dict[bytes, bytes]:
    """Return the rows of a bucket, in key order."""
    rows, at = {}, 0
    while at < len(raw):
        key_size, value_size = _SIZES.unpack_from(raw, at)
        at += _SIZES.size
        rows[raw[at : at + key_size]] = raw[at + key_size : at + key_size + value_size]
        at += key_size + value_size
    return rows


def pack_bucket(rows: dict[bytes, bytes]) -> bytes:
    """Undo `unpack_bucket`."""
    return b"".join(_SIZES.pack(len(key), len(rows[key])) + key + rows[key] for key in sorted(rows))


def boot_id() -> str | None:
    """Return what changes when the machine is started, None where the system does not say."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else None


def prepare_folder(folder: Path, boot: str | None) -> None:
    """Make the folder of an environment, empty if what is there was written before the last boot."""
    mark = folder / "boot-id"
    if folder.exists() and boot is not None and (not mark.exists() or mark.read_bytes() != boot.encode()):
        shutil.rmtree(folder)
    private_folder(folder)
    if boot is not None and not mark.exists():
        write_private(mark, boot)
