"""The loops of this room in C, where a compiler has built them; else (`loops` is None) Python does the same. ``PENSTOCK_NATIVE=0`` leaves
them out.
"""

from __future__ import annotations

import os
from typing import Any

try:
    from penstock.serde import _grouping

    loops: Any = None if os.environ.get("PENSTOCK_NATIVE") == "0" else _grouping
except ImportError:
    loops = None
