"""Memory that was freed is kept for the next epoch, which needs as much again.

Given back to the kernel, it would have to be handed out anew, page by page, each cleared before: with a row for each record that was a
tenth of what the driver does, and a fiftieth of what a lane does (docs/decisions/0028).
"""

from __future__ import annotations

import ctypes
from functools import cache

#: of Arrow's allocator, read when a process starts: milliseconds until memory that nobody uses is given back
ENVIRONMENT = {"MIMALLOC_PURGE_DELAY": "10000"}

#: of glibc's ``mallopt``: what is freed at the end of the heap stays if it is less than the first; what is larger than the second is given
#: back at once; by the third more is asked for than is needed, and a heap of another thread that becomes empty stays if it is not larger
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_TOP_PAD = -1, -3, -2
_SETTINGS = {_M_TRIM_THRESHOLD: 1 << 29, _M_MMAP_THRESHOLD: 1 << 25, _M_TOP_PAD: 1 << 24}


@cache
def keep_freed_memory() -> bool:
    """Let this process keep what it has freed; False where the C library has no such settings.

    >>> keep_freed_memory() in (True, False)
    True
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, value) == 1 for name, value in _SETTINGS.items())
