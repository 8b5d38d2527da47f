"""Makes ``formats.json``: a pending file, a sorted run, a shard checkpoint and rows of the envelope, as this version writes them.

Run by hand when a format gets a new number (``docs/formats.md``); bytes are hex.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import msgspec
import pyarrow as pa

from penstock.lane.checkpoint import ShardCheckpoint
from penstock.protocol.chunk import chunk_of
from penstock.protocol.envelope import RECORD, SINK, EnvelopeRow, batches_of, pack_place
from penstock.record import Origin
from penstock.state import pending
from penstock.state import sorted_run as runs
from penstock.state.base import Sealed

FILE = Path(__file__).parent / "formats.json"

RUN = runs.pack(pa.array([b"a", b"b", b"c"]), pa.array([b"1", None, b"3"]))
SEALED = {
    "counts": Sealed([(b"k", b"v"), (b"gone", None)], [], {"counts/index": [(b"i", b"")]}, ["counts/0"]),
    "sums": Sealed(runs.SortedRun(RUN)),
}
ORIGIN = Origin("orders", 1, 7, 5, b"k", None, (("h", b"1"),), 1, 5, (0, 2))
PLACE = pack_place(ORIGIN, (0, 2), 0, True)
ROWS = [
    EnvelopeRow(RECORD, 3, "source", 3, b"k", b"v", 5, None, PLACE),
    EnvelopeRow(SINK, 1, "out", -1, None, b"w", 6, b"\x91\x92\xa1h\xc4\x011"),
]


CHECKPOINT = ShardCheckpoint("life", "7.c0ffee", {"counts": [(3, 12)]}, 1_600_000_000_000)


def written() -> dict[str, bytes]:
    """Return each format as it is written now."""
    with tempfile.TemporaryDirectory() as folder:
        pending.write(Path(folder), "file", pending.pack(SEALED))
        file = (Path(folder) / "file").read_bytes()
    envelope = chunk_of(list(batches_of(ROWS)))
    return {
        "pending": file,
        "sorted_run": RUN,
        "checkpoint": msgspec.msgpack.encode(CHECKPOINT),
        "place": PLACE,
        "envelope": envelope,
    }


def main() -> None:
    """Write the file."""
    FILE.write_text(json.dumps({name: data.hex() for name, data in written().items()}, indent=1) + "\n")


if __name__ == "__main__":
    assert sys.byteorder == "little", "a run has the byte order of the machine: the golden one is little-endian"
    main()
