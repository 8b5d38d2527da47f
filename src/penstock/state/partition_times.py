"""The time of a window or session store, as it is kept beside its rows: (index, time) pairs.

One pair is written. Versions before 0.2 wrote one for each source partition; the least of them is the time of the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

_PAIR = Struct(">iq")


def pack_times(times: Iterable[tuple[int, int]]) -> bytes:
    """Return (index, time) pairs as bytes.

    >>> list(parse_times(pack_times([(0, 7), (2, 5)])))
    [(0, 7), (2, 5)]
    """
    return b"".join(_PAIR.pack(index, time) for index, time in times)


def parse_times(data: bytes | None) -> Iterable[tuple[int, int]]:
    """Read what ``pack_times`` wrote; nothing from None."""
    return () if data is None else _PAIR.iter_unpack(data)
