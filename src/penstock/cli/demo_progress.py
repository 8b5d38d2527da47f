"""How far a demo is, what it came to, and whether that is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from penstock.cli.demo_topology import Results
    from penstock.cli.gauge import ApplicationReading


@dataclass(slots=True)
class Progress:
    """A demo at one moment. Tables are those that the output topics come to."""

    #: purchases to make; None: until somebody stops it
    total: int | None
    phase: str = "starting"
    #: address of the page, once it is there
    page: str | None = None
    purchases: int = 0
    #: since the jars were there, and until the first committed result was read
    milliseconds: int = 0
    first_result_ms: int | None = None
    #: of the application, once it has started
    reading: ApplicationReading | None = None
    #: results read
    written: int = 0
    spend: dict[str, int] = field(default_factory=dict)
    revenue: dict[Any, int] = field(default_factory=dict)
    #: what it must come to, known at the end
    wanted: Results | None = None

    def differences(self) -> list[str]:
        """Explain in what the results differ from those wanted."""
        assert self.wanted is not None, "the end has not come yet"
        return [*differing(self.spend, self.wanted.spend), *differing(self.revenue, self.wanted.revenue)]

    def summary(self) -> dict[str, Any]:
        """Return the outcome as plain data."""
        differences = self.differences()
        reading = self.reading
        return {
            "purchases": self.purchases,
            "results_written": self.written,
            "milliseconds": self.milliseconds,
            "first_result_ms": self.first_result_ms,
            "epochs": None if reading is None else reading.epochs,
            "last_epoch_ms": None if reading is None else reading.epoch_ms,
            "spend_cents": dict(sorted(self.spend.items())),
            "revenue_cents": [
                {"category": window.key, "start": window.start, "end": window.end, "cents": cents}
                for window, cents in sorted(self.revenue.items())
            ],
            "equal_to_plain_python": not differences,
            "differences": differences,
        }


#: is shown a demo, again and again
Watch: TypeAlias = Callable[[Progress], None]


def differing(got: Mapping[Any, int], want: Mapping[Any, int]) -> Iterator[str]:
    """Explain which rows of a table differ.

    >>> list(differing({"a": 1, "b": 2}, {"a": 1, "b": 3}))
    ['b: Penstock says 2, plain Python says 3']
    """
    for key in sorted(got.keys() | want.keys()):
        if got.get(key) != want.get(key):
            yield f"{key}: Penstock says {got.get(key)}, plain Python says {want.get(key)}"
