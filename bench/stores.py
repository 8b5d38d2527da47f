"""What a store costs in processor time: read + write of a table store, and the base maps below it. ``python -m bench.stores``."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from time import process_time
from typing import Any

from penstock.record import Origin
from penstock.serde import Serde
from penstock.state.base import ShardState
from penstock.state.lmdb_store import LmdbState
from penstock.state.memory import MemoryState
from penstock.state.open import Standalone, open_store
from penstock.state.spec import Stores

OPERATIONS, KEYS = 1_000_000, 50_000


def _same(raw: bytes) -> bytes:
    return raw


IDENTITY: Serde[bytes] = Serde(_same, _same, "identity")


def _open(state: ShardState, **options: Any) -> Any:
    spec = Stores.key_value("s", key=IDENTITY, value=IDENTITY, **options)
    return open_store(spec, state, Standalone(Origin("t", 0, 0, 0, None, None, ())))


def _report(label: str, seconds: float, operations: int) -> None:
    print(f"{label:<58} {seconds / operations * 1e6:7.3f} µs")


def _keys(n: int) -> list[bytes]:
    chosen = random.Random(7)
    return [b"key-%06d" % chosen.randrange(KEYS) for _ in range(n)]


def bare_dict() -> None:
    """The floor: what the two dict operations of a read and a write cost on this machine, now."""
    keys, rows = _keys(OPERATIONS), dict[bytes, tuple[Any, ...]]()
    start = process_time()
    for key in keys:
        rows.get(key)
        rows[key] = (b"value-of-some-bytes", 1, (), None, key)
    _report("a bare dict: get + set of a tuple", process_time() - start, OPERATIONS)


def read_and_write(state: ShardState, label: str, **options: Any) -> None:
    """Aggregate-like access: read, then write; half of the keys are met in the base map, then a barrier."""
    store = _open(state, **options)
    keys = _keys(OPERATIONS)
    for key in set(keys[: OPERATIONS // 2]):
        store.write(key, b"value-of-some-bytes", 1)
    store.apply(store.seal())
    read, write = store.read, store.write
    start = process_time()
    for key in keys:
        read(key)
        write(key, b"value-of-some-bytes", 1)
    _report(f"{label}: read + write", process_time() - start, OPERATIONS)
    start = process_time()
    sealed = store.seal()
    _report(f"{label}: seal, per row", process_time() - start, len(sealed.writes))
    start = process_time()
    store.apply(sealed)
    _report(f"{label}: apply, per row", process_time() - start, len(sealed.writes))
    start = process_time()
    for key in keys[:200_000]:
        read(key)
    _report(f"{label}: read from the base map", process_time() - start, 200_000)


def ranges(state: ShardState, label: str) -> None:
    """A short range for every record, in an epoch that writes all the time."""
    store = _open(state)
    keys = _keys(20_000)
    start = process_time()
    for key in keys:
        store.put(key, b"v")
        for _ in store.range(key, key + b"\xff"):
            pass
    _report(f"{label}: put + range of one row", process_time() - start, len(keys))


def _on_lmdb(run: Callable[[ShardState], None], *, checksums: bool = False) -> None:
    folder = tempfile.mkdtemp()
    state = LmdbState(folder, checksums=checksums)
    try:
        run(state)
    finally:
        state.destroy()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Run it all."""
    bare_dict()
    cases: dict[str, dict[str, Any]] = {
        "timestamped": {"timestamped": True},
        "timestamped, cached": {"timestamped": True, "cached": True},
        "plain": {},
        "timestamped, ttl": {"timestamped": True, "ttl": 1 << 40},
    }
    for label, options in cases.items():
        read_and_write(MemoryState(), f"memory, {label}", **options)
    _on_lmdb(lambda state: read_and_write(state, "lmdb, timestamped", timestamped=True))
    _on_lmdb(lambda state: read_and_write(state, "lmdb with checksums, timestamped", timestamped=True), checksums=True)
    ranges(MemoryState(), "memory")
    _on_lmdb(lambda state: ranges(state, "lmdb"))


if __name__ == "__main__":
    main()
