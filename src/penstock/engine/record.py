"""The epoch's record: all that a new start needs to go on after the last barrier. One JSON object, in ``<application>-epochs``.

It is written in the transaction of its epoch, so the last committed one tells what was committed. JSON, so that a person can
read it with any consumer; ``format`` says how to read it, and a format of the future is refused, not guessed at.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import msgspec

from penstock.errors import RecoveryError, TopicError
from penstock.log.base import Log, Offsets
from penstock.log.topics import epochs_name

FORMAT = 1
#: the key of every record: compaction keeps the last one
KEY = b"epoch"


class Clocks(msgspec.Struct, frozen=True):
    """The times that the driver keeps of source partitions."""

    #: (topic, partition, greatest timestamp read)
    reached: list[tuple[str, int, int]] = []
    #: (topic, partition, greatest watermark), of sources whose watermark strategy is a function
    marks: list[tuple[str, int, int]] = []
    #: (topic, partition, wall-clock time of the last record)
    arrived: list[tuple[str, int, int]] = []
    #: (sources, partition index, time), of times that no record has brought, but the wall clock
    ahead: list[tuple[str, int, int]] = []


class EpochRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a committed epoch left behind.

    >>> record = EpochRecord(epoch=7, token="a1", application_id="shop", shards=2, lanes=1, offsets=nested({("orders", 0): 5}))
    >>> decode(encode(record)) == record, record.positions
    (True, {('orders', 0): 5})
    """

    format: int = FORMAT
    epoch: int
    #: names this attempt of the epoch: what a lane wrote for another attempt is not taken for it
    token: str
    application_id: str
    shards: int
    lanes: int
    #: topic → partition → the next offset to read
    offsets: dict[str, dict[str, int]] = {}
    #: store → where its changelog ends, by shard
    changelogs: dict[str, list[int]] = {}
    #: by shard: the token of the last committed epoch that wrote to it; "" if none did
    versions: list[str] = []
    #: by shard: the version before that one, and the files that lead from it to the version
    befores: list[str] = []
    pending: list[list[str]] = []
    #: names the life of the application: local state of another life is thrown away
    incarnation: str = ""
    clocks: Clocks = Clocks()
    #: level → shard → what its task gave (``Task.snapshot``): plain data
    snapshots: dict[str, dict[str, Any]] = {}
    fingerprint: str = ""
    #: what the fingerprint covers, packed
    topology: str = ""
    committed_at: int = 0
    #: where the time of the epoch before went: microseconds by step of the driver, and by phase of all lanes together (``lane: ...``)
    profile: dict[str, int] = {}

    @property
    def positions(self) -> Offsets:
        """The offsets as the log has them."""
        return {
            (topic, int(partition)): offset
            for topic, partitions in self.offsets.items()
            for partition, offset in partitions.items()
        }


class _Head(msgspec.Struct):
    """What every format has."""

    format: int


def nested(positions: Offsets) -> dict[str, dict[str, int]]:
    """Return offsets as the record has them.

    >>> nested({("a", 0): 5, ("a", 1): 7})
    {'a': {'0': 5, '1': 7}}
    """
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in positions.items():
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def encode(record: EpochRecord) -> bytes:
    """Return the bytes of a record. Snapshots must be plain data: text, numbers, lists, mappings with text as keys."""
    return msgspec.json.encode(record)


def decode(data: bytes) -> EpochRecord:
    """Read a record; raise ``RecoveryError`` if it is none, or of a format that this version does not know."""
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.format == FORMAT:
            return msgspec.json.decode(data, type=EpochRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecoveryError(
            f"the last epoch's record cannot be read: {error}. Was something else written to its topic? Start under a new "
            "application_id, or forget what was done so far: `penstock reset`"
        ) from error
    raise RecoveryError(
        f"the last epoch's record has format {head.format}, this version of Penstock reads format {FORMAT}: it was written by "
        "another version. Run that one or a newer one, or forget what was done so far: `penstock reset`"
    )


def read_last(log: Log, application_id: str) -> EpochRecord | None:
    """Return the record of the last committed epoch; None if there was none yet."""
    reader = log.reader()
    try:
        found = reader.last_record(epochs_name(application_id))
    except TopicError:  # the first start: nobody has made the topic yet
        return None
    finally:
        reader.close()
    return None if found is None or found.value is None else decode(found.value)


def pack(text: str) -> str:
    """Make a text small enough to be in every record.

    >>> unpack(pack("Topologies:"))
    'Topologies:'
    """
    return base64.b64encode(zlib.compress(text.encode())).decode("ascii")


def unpack(packed: str) -> str:
    """Return the text that was packed."""
    try:
        return zlib.decompress(base64.b64decode(packed)).decode()
    except (ValueError, zlib.error) as error:
        raise RecoveryError(f"the topology in the last epoch's record cannot be read: {error}") from error
