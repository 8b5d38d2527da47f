"""How long the clients wait for a cluster that does not answer: so many seconds, or few once the application is stopping."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

#: what is left of every deadline once it is expedited: enough for a cluster that is only slow
EXPEDITED_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Deadline:
    """Seconds to wait. ``expedited`` is shared by all clients of a log, and may be set by any thread while they wait.

    >>> deadline = Deadline(60)
    >>> len(list(deadline.waits(1)))
    60
    >>> deadline.expedited.set()
    >>> len(list(deadline.waits(1)))
    5
    """

    seconds: float
    expedited: threading.Event = field(default_factory=threading.Event)

    def waits(self, seconds: float) -> Iterator[None]:
        """Yield before every wait of so many seconds that may be made; at least once."""
        waited = 0.0
        for _ in range(max(1, round(self.seconds / seconds))):
            yield
            waited += seconds if self.expedited.is_set() else 0
            if waited >= EXPEDITED_SECONDS:
                return

    def is_over(self, waited: float) -> bool:
        """Whether a client that has waited so many seconds gives up."""
        return waited >= (min(self.seconds, EXPEDITED_SECONDS) if self.expedited.is_set() else self.seconds)
