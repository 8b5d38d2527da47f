"""Resources: what is expensive to make (a connection, a model) and outlives a processor, once for each process.

A processor object lives for one epoch of a shard. ``context.resource(name, make)`` gives it what an earlier one has made in the same
process: a Python worker of Spark, or the test driver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("penstock.lane")


class Resources:
    """The resources of one process, by name.

    >>> resources = Resources()
    >>> resources.get("names", list) is resources.get("names", list)
    True
    """

    def __init__(self) -> None:
        self._made: dict[str, tuple[Any, Callable[[Any], object] | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._made)

    def get(self, name: str, make: Callable[[], Any], close: Callable[[Any], object] | None = None) -> Any:
        """Return the resource of this name; ``make()`` makes it if there is none, ``close(resource)`` ends it with the process."""
        if name not in self._made:
            self._made[name] = (make(), close)
        return self._made[name][0]

    def close(self) -> None:
        """Close all, the last one made first. One that cannot be closed is logged: the others are closed, too."""
        while self._made:
            name, (resource, close) = self._made.popitem()
            if close is not None:
                try:
                    close(resource)
                except Exception:
                    logger.exception("the resource %r cannot be closed", name)
