"""From the counters of an App to what a person wants to see: rates, lag, how long an epoch takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

#: rates are means over so many microseconds
SPAN_US = 2_000_000


@dataclass(frozen=True, slots=True)
class ApplicationReading:
    """An application at one moment. Counters are since its start, rates a second."""

    application_id: str
    state: str
    epoch: int = 0
    epochs: int = 0
    records_in: int = 0
    records_out: int = 0
    out_by_topic: dict[str, int] = field(default_factory=dict)
    in_rate: int = 0
    out_rate: int = 0
    lag: int = 0
    epoch_ms: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    retries: int = 0

    def data(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return asdict(self)


class Gauge:
    """Reads the counters of one App again and again.

    >>> gauge = Gauge()
    >>> counters = {"application_id": "shop", "state": "RUNNING", "epoch": 1, "records_in": 100}
    >>> gauge.read(counters, at_us=0).in_rate
    0
    >>> gauge.read({**counters, "records_in": 400}, at_us=1_500_000).in_rate
    200
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int, int]] = deque()

    def read(self, metrics: Mapping[str, Any], at_us: int) -> ApplicationReading:
        """Return what the counters (`App.metrics`) tell at this time."""
        written = dict(metrics.get("records_out", {}))
        records_in, records_out = metrics.get("records_in", 0), sum(written.values())
        in_rate, out_rate = self._rates(at_us, records_in, records_out)
        return ApplicationReading(
            application_id=metrics["application_id"],
            state="PAUSED" if metrics.get("paused") else metrics["state"],
            epoch=metrics.get("epoch", 0),
            epochs=metrics.get("epochs", 0),
            records_in=records_in,
            records_out=records_out,
            out_by_topic=written,
            in_rate=in_rate,
            out_rate=out_rate,
            lag=metrics.get("lag", 0),
            epoch_ms=round(sum(metrics.get("last_epoch_us", {}).values()) / 1000),
            dropped=dict(metrics.get("dropped_by_reason", {})),
            refused=sum(metrics.get("refused", {}).values()),
            retries=metrics.get("retries", 0),
        )

    def _rates(self, at_us: int, records_in: int, records_out: int) -> tuple[int, int]:
        self._seen.append((at_us, records_in, records_out))
        while len(self._seen) > 2 and at_us - self._seen[1][0] >= SPAN_US:
            self._seen.popleft()
        then, came, went = self._seen[0]
        spent = max(1, at_us - then)
        return (records_in - came) * 1_000_000 // spent, (records_out - went) * 1_000_000 // spent


def status_line(reading: ApplicationReading) -> str:
    """Say it in one line.

    >>> status_line(ApplicationReading("shop", "RUNNING", epoch=7, in_rate=2000, out_rate=40, lag=12, epoch_ms=180))
    'shop RUNNING  epoch 7 (180 ms)  in 2,000/s  out 40/s  lag 12'
    """
    parts = [
        f"{reading.application_id} {reading.state}",
        f"epoch {reading.epoch:,} ({reading.epoch_ms:,} ms)",
        f"in {reading.in_rate:,}/s",
        f"out {reading.out_rate:,}/s",
        f"lag {reading.lag:,}",
    ]
    if reading.dropped:
        parts.append(f"dropped {sum(reading.dropped.values()):,} ({', '.join(sorted(reading.dropped))})")
    if reading.refused:
        parts.append(f"refused {reading.refused:,}")
    if reading.retries:
        parts.append(f"retries {reading.retries:,}")
    return "  ".join(parts)
