"""Makes ``epoch_record.json``: an epoch record as rows of its topic, whole and split, as this version writes them; later ones read them.

``whole`` was made by the version before records were split; it is kept as it is.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from penstock.engine.record import Clocks, EpochRecord, encode, rows_of

FILE = Path(__file__).parent / "epoch_record.json"
RECORD = EpochRecord(
    epoch=7,
    token="7.c0ffee",
    application_id="shop",
    shards=2,
    lanes=1,
    offsets={"orders": {"0": 5, "1": 9}},
    changelogs={"counts": [12, 0]},
    versions=["7.c0ffee", ""],
    befores=["6.abad1dea", ""],
    pending=[["7-0.pending"], []],
    incarnation="life",
    clocks=Clocks(reached=[("orders", 0, 1_600_000_000_000)], arrived=[("orders", 0, 1_600_000_000_100)]),
    snapshots={"0": {"0": {"stream_time": 1_600_000_000_000, "name": "Grüße"}}},
    fingerprint="f00d",
    topology="eJwDAAAAAAE=",
    committed_at=1_600_000_000_200,
    profile={"run lanes": 1500},
)


def main() -> None:
    """Write the file."""
    known = json.loads(FILE.read_text()) if FILE.exists() else {"whole": encode(RECORD).decode()}
    split = [[key.decode(), base64.b64encode(value).decode()] for _, _, key, value, _, _ in rows_of(RECORD, 1, 400)]
    FILE.write_text(json.dumps(known | {"split": split}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
