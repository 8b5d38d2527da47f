"""How long the clients wait for a cluster that does not answer: so many seconds, and hardly at all once somebody wants to end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

#: what is left of every patience when there is a hurry: enough for a cluster that is only slow
HURRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait. ``hurry`` is shared by all clients of a log, and may be set by any thread while they wait.

    >>> patience = Patience(60)
    >>> len(list(patience.turns(1)))
    60
    >>> patience.hurry.set()
    >>> len(list(patience.turns(1)))
    5
    """

    seconds: float
    hurry: threading.Event = field(default_factory=threading.Event)

    def turns(self, seconds: float) -> Iterator[None]:
        """Yield before every wait of so many seconds that may be made; at least once."""
        hurried = 0.0
        for _ in range(max(1, round(self.seconds / seconds))):
            yield
            hurried += seconds if self.hurry.is_set() else 0
            if hurried >= HURRY_SECONDS:
                return

    def is_over(self, waited: float) -> bool:
        """Tell whether somebody who has waited so many seconds gives up."""
        return waited >= (min(self.seconds, HURRY_SECONDS) if self.hurry.is_set() else self.seconds)
