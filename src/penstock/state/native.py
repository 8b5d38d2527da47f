"""The loops of this room in C, where a compiler has built them; else Python does the same (`runs_in_python`), and no runs are made.
``PENSTOCK_NATIVE=0`` leaves them out.
"""

from __future__ import annotations

import os
from typing import Any

from penstock.state import runs_in_python

try:
    from penstock.state import _apart, _runs

    is_built = os.environ.get("PENSTOCK_NATIVE") != "0"
except ImportError:
    is_built = False

#: of runs
loops: Any = _runs if is_built else runs_in_python
#: of objects; None: not built
objects: Any = _apart if is_built else None
