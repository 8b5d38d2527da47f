"""Letters: an epoch of few records, read by the driver and sent to one worker. See ``lane.letter`` for what becomes of it there.

Spark's own way to read and exchange costs the same for one record as for thousands, and much more than these records do. A letter
costs little, but one core does all of its work: an epoch is a letter as long as that work is less than what it saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from penstock.engine.offsets import Range
from penstock.lane.inbox import PARTITIONS, RAW_SCHEMA
from penstock.lane.orders import Orders, Report, Stage
from penstock.log.ranges import KafkaRanges, RangeRows
from penstock.record import Headers
from penstock.state.shards import shard_of

#: bytes of values that a letter may hold
MOST_BYTES = 1 << 23
#: microseconds of work that one core may do for what several could
MOST_WORK_US = 100_000
#: records that tell what one of them costs: of fewer, the cost of the epoch itself is most
TELLING = 500

_encode = msgspec.json.Encoder().encode


class Letters:
    """Decides which epochs are letters, and writes them."""

    def __init__(self, stage: Stage, reader: KafkaRanges, most_records: int) -> None:
        self._stage = stage
        self._reader = reader
        #: records of an epoch that are sent as a letter; 0: none are
        self.most_records = most_records
        #: what a record costs in the lanes, in microseconds, and its bytes, as far as is known
        self._cost = 0.0
        self._size = 0.0

    def write(self, orders: Orders, ranges: Sequence[Range]) -> bytes | None:
        """Return the letter of an epoch, empty if nothing is read; None if it is too much for one."""
        if not self.most_records:
            return None
        if not ranges:
            return b""
        count = sum(end - start for _, _, start, end in ranges)
        if count > self.most_records or count * self._cost > MOST_WORK_US or count * self._size > MOST_BYTES:
            return None
        found = self._reader.read(ranges, MOST_BYTES)
        return None if found is None else _packed(raw_rows(found, orders.topics, self._stage))

    def learn(self, reports: Iterable[Report]) -> None:
        """Be told of an epoch: what its records have cost."""
        records = size = work = 0
        for report in reports:
            records += report.records if report.level == 0 else 0
            size += report.size if report.level == 0 else 0
            work += sum(spent for phase, spent in report.spent.items() if phase != "read")
        if records:
            self._size = size / records
            if records >= TELLING or work > MOST_WORK_US or work / records < self._cost:
                self._cost = work / records


def raw_rows(found: Iterable[RangeRows], topics: Sequence[str], stage: Stage) -> pa.RecordBatch:
    """Return records as the raw rows that Spark's source makes of them (``lane.inbox``)."""
    columns: list[list[Any]] = [[] for _ in RAW_SCHEMA]
    gathered = gathered_topics(stage, topics)
    for rows in found:
        count = len(rows.offsets)
        shards = [0 if rows.topic in gathered else shard_of(key, stage.shards, rows.partition) for key in rows.keys]
        place = topics.index(rows.topic) * PARTITIONS + rows.partition
        headers = [header_text(given) for given in rows.headers]
        parts: tuple[list[Any], ...] = (
            shards,
            [place] * count,
            rows.offsets,
            rows.keys,
            rows.values,
            rows.timestamps,
            headers,
        )
        for column, part in zip(columns, parts, strict=True):
            column += part
    arrays = [pa.array(column, field.type) for column, field in zip(columns, RAW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA)


def header_text(headers: Headers) -> str | None:
    """Return headers as the text that a raw row has of them; None if there are none.

    >>> header_text((("a", b"1"), ("b", None)))
    '[{"key":"a","value":"MQ=="},{"key":"b","value":null}]'
    """
    return _encode([{"key": key, "value": value} for key, value in headers]).decode() if headers else None


def gathered_topics(stage: Stage, topics: Iterable[str]) -> tuple[str, ...]:
    """Return those of the topics whose records all go to one shard, sorted."""
    one = [stage.sources[name] for name in stage.plan.one_shard if name in stage.sources]
    return tuple(sorted(t for t in topics if any(t in n.topics or (n.pattern and n.pattern.fullmatch(t)) for n in one)))


def _packed(rows: pa.RecordBatch) -> bytes:
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_batch(rows)
    return bytes(stream.getvalue())
