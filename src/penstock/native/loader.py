"""Which body of each loop is used: the C extension where a compiler has built it, else the Python twin.

``PENSTOCK_NATIVE=0`` selects the twins everywhere; results are the same. ``penstock doctor`` shows what is used.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import Any

#: each loop, and what it does as ``penstock doctor`` says it
LOOPS = {
    "partition_queue": "reading",
    "record_batches": "writing",
    "grouping": "grouping by key",
    "sorted_runs": "state of many keys",
}


@cache
def in_c(name: str) -> Any | None:
    """Return the C extension of a loop, None if it was not built or only the twins are wanted."""
    if os.environ.get("PENSTOCK_NATIVE") == "0":
        return None
    try:
        loop: Any = import_module(f"penstock.native._{name}")
        if name == "partition_queue":  # it calls the librdkafka that the Python client has loaded
            loop.link_to(import_module("confluent_kafka.cimpl").__file__)
    except ImportError:
        return None
    return loop


def loop(name: str) -> Any:
    """Return the C extension of a loop, else its Python twin of the same name."""
    return in_c(name) or import_module(f"penstock.native.{name}")
