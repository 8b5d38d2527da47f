"""Rows at a source: their timestamps, their values, and what becomes of one that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.clock import Clock
from penstock.errors import DeserializationError, RegistryError, TimestampError
from penstock.lane.ordering import UNTIMED, ShortRun, SourceBatch, SourceRows, Times, order_by
from penstock.lane.source import Raw, SourceReader
from penstock.lane.task import Task
from penstock.log.rows import RangeRows
from penstock.record import Headers, Origin, undecodable_name
from penstock.serde import Serde, Serdes
from penstock.serde.foreign_key import SubscriptionResponseWrapperSerde, SubscriptionWrapperSerde
from penstock.serde.registry.framing import with_header
from penstock.topology.node import SourceNode

#: (key, value, timestamp, headers, origin)
Record: TypeAlias = tuple[Any, Any, int, Headers, Origin]


class Sources:
    """The sources of a step, open."""

    def __init__(self, nodes: Mapping[str, SourceNode], clock: Clock, config: Mapping[str, Any]) -> None:
        self._config = config
        self.readers = {name: SourceReader(node, clock) for name, node in nodes.items()}
        self.extracting = {name for name, node in nodes.items() if node.timestamp is not None}
        strategies = {name: node.watermark for name, node in nodes.items() if node.watermark is not None}
        #: sources whose watermark is so far behind the timestamp, and those whose watermark is a function's answer
        self.lags = {name: s.lag for name, s in strategies.items() if s.function is None and s.lag}
        self.asking = {name for name, s in strategies.items() if s.function is not None}

    def extract_times(
        self, rows: SourceRows, topics: Sequence[str], source_of: Mapping[str, str], before: Times
    ) -> SourceRows:
        """Put the extracted timestamps in the place of Kafka's, in the order of the rows; a row without one is marked."""
        chosen = [number for number, topic in enumerate(topics) if source_of[topic] in self.extracting]
        mask = np.isin(rows.topic, chosen)
        if not mask.any():
            return rows
        times, reached = rows.timestamp.copy(), rows.reached.copy()
        latest = dict(before)
        raws = list(rows.raws(topics))
        order = order_by((rows.offset, rows.partition, rows.topic))
        for i in order[mask[order]].tolist():
            raw = raws[i]
            place = (raw.topic, raw.partition)
            try:
                time = self.readers[source_of[raw.topic]].read(raw, latest.get(place, -1))[2]
            except (DeserializationError, TimestampError):
                time = -1
            if time < 0:
                reached[i] = UNTIMED
            else:
                times[i] = time
                latest[place] = max(latest.get(place, -1), time)
        return rows._replace(timestamp=times, reached=reached)

    def ask_marks(self, rows: SourceRows, topics: Sequence[str], source_of: Mapping[str, str]) -> SourceRows:
        """Ask the strategies that are functions for the watermarks of their rows; −1: none. A row at which one fails is marked."""
        if not self.asking:
            return rows
        asked = np.isin(rows.topic, [n for n, topic in enumerate(topics) if source_of[topic] in self.asking])
        marks, reached = np.full(len(asked), -1, dtype=np.int64), rows.reached.copy()
        times = rows.timestamp.tolist()
        for i, raw in enumerate(rows.raws(topics)):
            if not asked[i] or reached[i] == UNTIMED:
                continue
            reader = self.readers[source_of[raw.topic]]
            try:
                mark = reader.watermark(*reader.decode(raw), times[i], raw)
                marks[i] = -1 if mark is None else mark
            except (DeserializationError, TimestampError):
                reached[i] = UNTIMED
        return rows._replace(mark=marks, reached=reached)

    def watermarks(self, rows: SourceRows, topics: Sequence[str], source_of: Mapping[str, str]) -> Any:
        """Return the watermark that the partition of each row has with it: the partition time, less what its strategy allows for."""
        if not self.asking and not self.lags:
            return rows.reached
        found = rows.reached.copy()
        for number, topic in enumerate(topics):
            name, mine = source_of[topic], rows.topic == number
            if name in self.lags:
                found[mine] = np.maximum(rows.reached[mine] - self.lags[name], 0)
            elif name in self.asking:
                found[mine] = rows.mark[mine]
        return found

    def columns(self, batch: SourceBatch, told: Callable[[str], None]) -> Batch | None:
        """Return the records of a batch by column, read when somebody asks for them; None if one of them cannot be.

        ``told``: hears then what the time went on.
        """
        node = self.readers[batch.source].source
        if (not node.internal and int(batch.times.min()) < 0) or _has_undecodable(batch.some_headers):
            return None
        try:
            keys = _source_column(self._data(batch, "key"), node.key, told, made=node.internal)
            values = _source_column(self._data(batch, "value"), node.value, told)
        except pa.ArrowInvalid:
            return None
        return Batch(keys, values, batch.times, batch.some_headers, batch.provenance)

    def readable(self, batch: SourceBatch) -> tuple[Batch, list[int]]:
        """Return those records of a batch by column that can be read, and the places of the others."""
        node = self.readers[batch.source].source
        key_data, value_data = self._data(batch, "key"), self._data(batch, "value")
        keys, bad_keys = read_rows(key_data, node.key)
        values, bad_values = read_rows(value_data, node.value)
        bad = {*bad_keys, *bad_values}
        if not node.internal:
            bad.update(np.flatnonzero(batch.times < 0).tolist())
        given = batch.some_headers
        if given is not None:
            bad.update(at for at, headers in enumerate(given) if headers and undecodable_name(headers) is not None)
        columns = Batch(
            Column(keys, data=key_data, serde=node.key, made=node.internal),
            Column(values, data=value_data, serde=node.value),
            batch.times,
            batch.some_headers,
            batch.provenance,
        )
        return columns.pick([at for at in range(len(batch)) if at not in bad]), sorted(bad)

    def refuse_at(self, batch: SourceBatch, places: Iterable[int], task: Task) -> None:
        """Ask the policy about records of a batch that cannot be read."""
        for at in places:
            one = batch.part(slice(at, at + 1), batch.shard, batch.source)
            task.process_all(batch.source, self._one_by_one(one, task))

    def counted(self, batch: SourceBatch) -> Batch:
        """Return rows that each stand for several records."""
        node = self.readers[batch.source].source
        keys = Column(data=batch.key, serde=node.key, made=True)
        counts = np.frombuffer(b"".join(batch.value.to_pylist()), dtype=">i8").astype(np.int64)
        values = Column(data=batch.value, serde=Serdes.int64)
        return Batch(keys, values, batch.times, batch.some_headers, batch.provenance, counts=counts)

    def records(self, batch: SourceBatch | ShortRun, task: Task) -> Iterable[Record]:
        """Return the decoded records of a batch; those that cannot be read go to the policy."""
        node = self.readers[batch.source].source
        raw_keys, raw_values = self._data(batch, "key"), self._data(batch, "value")
        keys = decode_all(node.key, raw_keys)
        values = decode_all(node.value, raw_values) if keys is not None else None
        timestamps = batch.timestamps
        if keys is None or values is None or (not node.internal and min(timestamps, default=0) < 0):
            return self._one_by_one(batch, task)
        if _has_undecodable(batch.some_headers if isinstance(batch, SourceBatch) else batch.headers):
            return self._one_by_one(batch, task)
        return zip(keys, values, timestamps, batch.headers, batch.origins, strict=True)

    def refuse_untimed(self, rows: SourceRows, topics: Sequence[str], source_of: Mapping[str, str], task: Task) -> None:
        """Ask the policy about raw rows whose time could not be had."""
        for raw in rows.raws(topics):
            source = source_of[raw.topic]
            try:
                key, value, time = self.readers[source].read(raw, -1)
            except DeserializationError as error:
                task.errors.refuse_input(source, raw, error)
            else:
                if time >= 0 and source in self.asking:
                    self.readers[source].watermark(key, value, time, raw)  # raises what it raised before
                task.drop_at(source, "negative_timestamp" if time < 0 else "unstable_timestamp")

    def _data(self, batch: SourceBatch | ShortRun, part: str) -> Any:
        """Return the keys or the values of a batch; with the ids of their schemas in front, where these are in headers."""
        data = getattr(batch, f"{part}s" if isinstance(batch, ShortRun) else part)
        if part not in self.readers[batch.source].framed:
            return data
        if isinstance(batch, ShortRun):
            return [with_header(row, given, part) for row, given in zip(data, batch.headers, strict=True)]
        headers = batch.some_headers or [()] * len(batch)
        rows = zip(data.to_pylist(), headers, strict=True)
        return pa.array([with_header(row, given, part) for row, given in rows], data.type)

    def _one_by_one(self, batch: SourceBatch | ShortRun, task: Task) -> Iterable[Record]:
        for key, value, timestamp, headers, origin in zip(
            batch.keys, batch.values, batch.timestamps, batch.headers, batch.origins, strict=True
        ):
            raw = Raw(
                origin.topic or "", origin.partition, origin.offset, key, value, timestamp, headers, origin
            )  # fmt: skip
            read = self._decoded(batch.source, raw, task)
            if read is not None:
                yield *read, timestamp, headers, origin

    def _decoded(self, source: str, raw: Raw, task: Task) -> tuple[Any, Any] | None:
        reader = self.readers[source]
        try:
            if raw.timestamp < 0 and source not in self.extracting:
                reader.read(raw, -1)  # raises: the record has no time
            return reader.decode(raw)
        except DeserializationError as error:
            task.errors.refuse_input(source, raw, error)
            return None


#: what the nodes behind a topic of ours read by column themselves
_READ_BY_NODES = (SubscriptionWrapperSerde, SubscriptionResponseWrapperSerde)


def decode_all(serde: Serde[Any], column: pa.Array | list[bytes | None]) -> list[Any] | None:
    """Return a decoded column, or None if a value of it is refused: then each is asked for by itself.

    >>> from penstock.serde import Serdes
    >>> decode_all(Serdes.string, [b"a", None]), decode_all(Serdes.int64, [b"a"])
    (['a', None], None)
    """
    decode = serde.deserialize
    try:
        if isinstance(column, list):
            return [None if data is None else decode(data) for data in column]
        return Column(data=column, serde=serde).items
    except RegistryError:  # no fault of the rows
        raise
    except Exception:  # whatever the serde raises: the policy is asked row by row
        return None


def read_rows(data: pa.Array, serde: Serde[Any]) -> tuple[list[Any], list[int]]:
    """Return a decoded column, None where a row cannot be read, and the places of these rows.

    >>> read_rows(pa.array([b"1", b"{", None, b"2"]), Serdes.json)
    ([1, None, None, 2], [1])
    """
    if isinstance(serde, _READ_BY_NODES):
        return data.to_pylist(), []
    found = decode_all(serde, data)
    if found is not None:
        return found, []
    items: list[Any] = []
    bad: list[int] = []
    decode = serde.deserialize
    for place, row in enumerate(data.to_pylist()):
        try:
            items.append(None if row is None else decode(row))
        except RegistryError:
            raise
        except Exception:  # as above
            items.append(None)
            bad.append(place)
    return items, bad


def without_undecodable(rows: RangeRows, source: SourceNode) -> RangeRows:
    """Return the records that a source can read: the others did not become rows of a table whose topic is its changelog."""
    bad = {*read_rows(rows.keys, source.key)[1], *read_rows(rows.values, source.value)[1]}
    bad.update(np.flatnonzero(rows.timestamps < 0).tolist())
    bad.update(at for at, headers in enumerate(rows.headers or ()) if undecodable_name(headers) is not None)
    return rows.pick([at for at in range(rows.size) if at not in bad]) if bad else rows


def _has_undecodable(rows: Sequence[Headers] | None) -> bool:
    """Return whether a header has a name that is not UTF-8."""
    return rows is not None and any(headers and undecodable_name(headers) is not None for headers in rows)


def _source_column(data: pa.Array, serde: Serde[Any], told: Callable[[str], None], *, made: bool = False) -> Column:
    """Return bytes as a column. What nobody asks for must be such as can be read, too: of bytes and of text that is known."""
    if serde == Serdes.string:
        data.cast(pa.string())
    known = serde in (Serdes.string, Serdes.bytes) or isinstance(serde, _READ_BY_NODES)
    return Column(data=data, serde=serde, made=made, on_decode=None if known else told)
