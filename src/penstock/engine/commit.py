"""The barrier: an epoch as a tuple of named steps. Nothing is visible before ``commit``; everything is after it.

    run lanes → begin → produce sinks → produce changelog → produce epoch record → send offsets → commit → publish

Each step takes the `Work` of one epoch. A fault at any step before ``commit`` aborts, and the same ranges are run again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, repeat
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.clock import Clock
from penstock.engine.ledger import Ledger
from penstock.engine.offsets import Range
from penstock.engine.record import KEY, encode
from penstock.engine.refusal import Judge
from penstock.lane.envelope import CHANGELOG, FAILURE, NOTE, SINK, check, unpack_headers
from penstock.lane.failure import unpack_failure
from penstock.lane.orders import Orders, Report, decode_report
from penstock.log.base import Offsets, Producer, Row
from penstock.log.topics import changelog_name, epochs_name
from penstock.record import Headers

#: rows that are objects at a time
WINDOW = 2048


class RunsLanes(Protocol):
    """Whatever runs an epoch: Spark. ``spent``: microseconds of the last one in the driver, by phase."""

    spent: dict[str, int]

    def run(self, orders: Orders, ranges: list[Range]) -> pa.Table:
        """Return the envelope rows that left the lanes."""
        ...

    def cancel(self) -> None:
        """Let a run in another thread fail now."""
        ...


@dataclass(slots=True)
class Work:
    """One run of one epoch, from its ranges to its barrier."""

    ledger: Ledger
    orders: Orders
    ranges: list[Range]
    positions: Offsets
    lanes: RunsLanes
    producer: Producer
    config: Mapping[str, Any]
    clock: Clock
    fingerprint: str
    topology: str
    #: where the changelogs end now, aborted rows counted
    ends: dict[str, list[int]]
    #: offsets that the marker of a transaction takes up
    marker: int
    #: topic → largest row that it takes, of topics that take less than the client
    limits: Mapping[str, int] = field(default_factory=dict)
    rows: pa.Table | None = None
    reports: list[Report] = field(default_factory=list)
    #: where the time of the epoch before went: microseconds by step of the driver, and by phase of all lanes
    profile: dict[str, int] = field(default_factory=dict)
    #: the ledger of the barrier, once it is known
    after: Ledger | None = None
    written: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def application_id(self) -> str:
        """Whose epoch it is."""
        return self.ledger.application_id


Step = Callable[[Work], None]


def run_lanes(work: Work) -> None:
    """Run the epoch's job; a failure in a lane is raised here."""
    rows = work.lanes.run(work.orders, work.ranges)
    check(rows)
    failed = rows.filter(pc.equal(rows["kind"], FAILURE))
    if len(failed):
        raise unpack_failure(failed["value"][0].as_py())
    notes = rows.filter(pc.equal(rows["kind"], NOTE))
    work.reports = [decode_report(data) for data in notes["value"].to_pylist()]
    work.rows = rows


def begin(work: Work) -> None:
    """Open the transaction."""
    work.producer.begin()


def produce_sinks(work: Work) -> None:
    """Hand over the rows for topics, in order."""
    rows = _of_kind(work, SINK)
    for count in rows["name"].value_counts().to_pylist():
        work.written[count["values"]] += count["counts"]
    judge = Judge(work, _origins(rows))
    added: Headers = ()
    if work.config["epoch_header"] is not None:
        added = ((work.config["epoch_header"], str(work.orders.epoch).encode()),)
    handed = _handed(rows, partial(_rows_for_topics, added=added))
    work.producer.produce(judge.passing(handed), judge.refuse)


def produce_changelog(work: Work) -> None:
    """Hand over the rows of the changelogs; the partition is the shard."""
    rows = _of_kind(work, CHANGELOG)
    work.producer.produce(_handed(rows, partial(_rows_of_changelogs, work.application_id)))
    ends = {store: list(by_shard) for store, by_shard in work.ends.items()}
    written = rows.group_by(["name", "partition"]).aggregate([([], "count_all")]).to_pylist()
    for store, shard, count in ((row["name"], row["partition"], row["count_all"]) for row in written):
        # The marker counts: an aborted transaction may have left one, not written yet, where it had no row. Not to have seen it
        # makes this end too small by one, and no row is lost by that as long as the last offset before it is no row's.
        ends[store][shard] += count + work.marker
    orders = work.orders
    work.after = work.ledger.after(orders.token, work.reports, work.positions, ends, now=orders.now, told=orders.told)


def produce_epoch_record(work: Work) -> None:
    """Hand over the record of the barrier, from which a new start goes on."""
    assert work.after is not None
    now = work.clock.now_ms()
    record = work.after.record(
        work.orders.token,
        fingerprint=work.fingerprint,
        topology=work.topology,
        committed_at=now,
        profile=work.profile,
    )
    work.producer.produce([(epochs_name(work.application_id), 0, KEY, encode(record), now, ())])


def send_offsets(work: Work) -> None:
    """Move the group's offsets with the transaction, so that Kafka's own tools show the lag."""
    if work.positions:
        work.producer.send_offsets(work.application_id, work.positions)


def commit(work: Work) -> None:
    """Make all of it visible at once."""
    work.producer.commit()


#: what an epoch is made of, in order; the loop adds ``publish``
STEPS: tuple[tuple[str, Step], ...] = (
    ("run lanes", run_lanes),
    ("begin", begin),
    ("produce sinks", produce_sinks),
    ("produce changelog", produce_changelog),
    ("produce epoch record", produce_epoch_record),
    ("send offsets", send_offsets),
    ("commit", commit),
)


def _of_kind(work: Work, kind: int) -> pa.Table:
    """Return the rows of a kind in the order of the epoch: by level, then task, then position."""
    assert work.rows is not None
    found: list[pa.RecordBatch] = []
    for batch in work.rows.to_batches():  # most are of one kind, and need not be copied
        mine = batch["kind"].to_numpy() == kind
        if mine.all():
            found.append(batch)
        elif mine.any():
            found.append(batch.filter(pa.array(mine)))
    rows = pa.Table.from_batches(found, work.rows.schema)
    routes = rows["route"].to_numpy()
    if len(routes) > 1 and not (routes[1:] >= routes[:-1]).all():
        rows = rows.take(pa.array(np.argsort(routes, kind="stable")))
    return rows


def _handed(rows: pa.Table, of_window: Callable[[pa.RecordBatch], Iterable[Row]]) -> Iterable[Row]:
    """Return rows as the producer wants them, a window at a time: their memory is used again, and is still near."""
    return chain.from_iterable(map(of_window, rows.to_batches(max_chunksize=WINDOW)))


def _rows_for_topics(rows: pa.RecordBatch, added: Headers) -> Iterable[Row]:
    headers = _headers(rows)
    if added:
        headers = ((*given, *added) for given in headers)
    return zip(_names(rows), _places(rows), *_columns(rows), headers, strict=False)


def _rows_of_changelogs(application_id: str, rows: pa.RecordBatch) -> Iterable[Row]:
    names = _names(rows, partial(changelog_name, application_id))
    return zip(names, rows["partition"].to_numpy().tolist(), *_columns(rows), _headers(rows), strict=False)


def _columns(rows: pa.RecordBatch) -> tuple[list[bytes | None], list[bytes | None], list[int]]:
    return rows["key"].to_pylist(), rows["value"].to_pylist(), rows["timestamp"].to_numpy().tolist()


def _names(rows: pa.RecordBatch, topic: Callable[[str], str] = str) -> Iterable[str]:
    """Return the topics of rows, which are few: one that is all of them is told for ever."""
    encoded = rows["name"].dictionary_encode()
    names = [topic(name) for name in encoded.dictionary.to_pylist()]
    return repeat(names[0]) if len(names) == 1 else [names[number] for number in encoded.indices.to_numpy().tolist()]


def _places(rows: pa.RecordBatch) -> Iterable[int | None]:
    """Return the partitions of rows; None: the producer's choice."""
    partitions = rows["partition"].to_numpy()
    if (partitions < 0).all():
        return repeat(None)
    return [None if partition < 0 else partition for partition in partitions.tolist()]


def _headers(rows: pa.RecordBatch) -> Iterable[Headers]:
    column = rows["headers"]
    if column.null_count == len(column):
        return repeat(())
    return map(unpack_headers, column.to_pylist())


def _origins(rows: pa.Table) -> list[bytes | None]:
    """Return where the rows came from; nothing where no policy wants to know."""
    column = rows["place"]
    return [] if column.null_count == len(column) else column.to_pylist()
