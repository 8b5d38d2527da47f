"""The epoch's record: all that a new start needs to go on after the last barrier. One JSON object, in ``<application>-epochs``.

It is written in the transaction of its epoch, so the last committed one tells what was committed. JSON, so that a person can
read it with any consumer; ``format`` says how to read it, and a format of the future is refused, not guessed at.

A topic takes records of a limited size, and an application may have any number of shards and partitions. So a large record is split::

    key           value
    epoch/0       the first bytes of the JSON object, compressed
    epoch/1 ...   the following bytes, in order
    epoch         {"format": 2, "epoch": ..., "token": ..., "parts": how many, "size": their bytes together, "crc32": of all of them}

All rows of an epoch are in its transaction and follow each other, the one with the key ``epoch`` last. Compaction keeps the last row of
each key, and so the last epoch whole. A small record is one row with the key ``epoch``: the object itself, ``format`` 1.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.errors import RecoveryError, TopicError
from penstock.log.base import Log, LogRecord, Offsets, Reader, Row
from penstock.log.topics import epochs_name

#: of the object, and of the row that tells of the parts of a large one
FORMAT, SPLIT_FORMAT = 1, 2
#: the key of every record: compaction keeps the last one
KEY = b"epoch"
#: a record that is not larger is written as it is; of a larger one no part is
WHOLE_BYTES, PART_BYTES = 1 << 16, 1 << 18
#: times that a record is looked for again which an application that runs has replaced meanwhile
MOST_LOOKS = 10


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
    #: source topic → its id: a topic that was deleted and made anew has another one
    topic_ids: dict[str, str] = {}
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
    #: what a reader without the program needs to know of the stores (``engine/store_descriptions.py``), packed
    stores: str = ""
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
    """What every format has, and what is said of the parts of a large record."""

    format: int
    epoch: int = 0
    token: str = ""
    parts: int = 0
    size: int = 0
    crc32: int = 0


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


def rows_of(record: EpochRecord, now: int, limit: int = PART_BYTES) -> list[Row]:
    """Return the rows that are written of a record, in order. ``limit``: the largest row that the topic takes."""
    topic, data = epochs_name(record.application_id), encode(record)
    size = min(PART_BYTES, limit // 2)  # a row has a key and a frame, too
    if len(data) <= min(WHOLE_BYTES, size):
        return [(topic, 0, KEY, data, now, ())]
    packed = zlib.compress(data, level=1)
    parts = [packed[at : at + size] for at in range(0, len(packed), size)]
    head = _Head(SPLIT_FORMAT, record.epoch, record.token, len(parts), len(packed), zlib.crc32(packed))
    cells = [(_part_key(number), part) for number, part in enumerate(parts)]
    return [(topic, 0, key, value, now, ()) for key, value in [*cells, (KEY, msgspec.json.encode(head))]]


def _part_key(number: int) -> bytes:
    return b"%b/%d" % (KEY, number)


def decode(data: bytes) -> EpochRecord:
    """Read a record that is one row; raise ``RecoveryError`` if it is none, or of a format that this version does not know."""
    head = _head(data)
    if head.format != FORMAT:
        raise _unknown(head.format)
    try:
        return msgspec.json.decode(data, type=EpochRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _undecodable(str(error)) from error


def _head(data: bytes) -> _Head:
    try:
        return msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _undecodable(str(error)) from error


def _undecodable(why: str) -> RecoveryError:
    return RecoveryError(
        f"the last epoch's record cannot be read: {why}. Was something else written to its topic? Start under a new "
        "application_id, or forget what was done so far: `penstock reset`"
    )


def _unknown(number: int) -> RecoveryError:
    return RecoveryError(
        f"the last epoch's record has format {number}, this version of Penstock reads formats {FORMAT} and {SPLIT_FORMAT}: it was "
        "written by another version. Run that one or a newer one, or forget what was done so far: `penstock reset`"
    )


def read_last(log: Log, application_id: str) -> EpochRecord | None:
    """Return the record of the last committed epoch; None if there was none yet."""
    reader = log.reader()
    try:
        return _read_last(reader, epochs_name(application_id))
    except TopicError:  # the first start: nobody has made the topic yet
        return None
    finally:
        reader.close()


def _read_last(reader: Reader, topic: str) -> EpochRecord | None:
    """Read the last record. Its parts may be compacted away meanwhile: then there is a newer one."""
    found = reader.last_record(topic)
    for _ in range(MOST_LOOKS):
        if found is None or found.value is None:
            return None
        head = _head(found.value)
        if head.format != SPLIT_FORMAT:
            return decode(found.value)
        record = _joined(head, list(reader.read(topic, 0, max(0, found.offset - head.parts), found.offset)))
        if record is not None:
            return record
        before, found = found, reader.last_record(topic)
        if found == before:
            break
    raise _undecodable("parts of it are missing, or are not its own")


def _joined(head: _Head, rows: Sequence[LogRecord]) -> EpochRecord | None:
    """Return the record of all its parts; None if they are not there as they were written."""
    packed = b"".join(row.value or b"" for row in rows)
    keys = [row.key for row in rows]
    if keys != [_part_key(number) for number in range(head.parts)] or len(packed) != head.size:
        return None
    return decode(zlib.decompress(packed)) if zlib.crc32(packed) == head.crc32 else None


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
