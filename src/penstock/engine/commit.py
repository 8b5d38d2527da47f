"""The barrier: what each step of an epoch does. Nothing is visible before ``commit``; everything is after it.

Each step takes the `Work` of one attempt. Which step follows, and what a fault means, is in ``engine.epoch``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.epoch import EpochState
from penstock.engine.production_errors import ProductionErrorHandler
from penstock.engine.record import PART_BYTES, rows_of
from penstock.engine.work import Work
from penstock.log.base import RowColumns
from penstock.log.topics import changelog_name, epochs_name
from penstock.protocol.envelope import CHANGELOG, FAILURE, NOTE, SINK, check, unpack_headers
from penstock.protocol.failure import unpack_failure
from penstock.protocol.report import decode_report
from penstock.protocol.worker_log import replay
from penstock.record import Headers

Step = Callable[[Work], None]


def run_lanes(work: Work) -> None:
    """Run the lanes; raise a failure of user code."""
    rows = work.context.executor.run(work.request, work.ranges)
    check(rows)
    notes = rows.filter(pc.equal(rows["kind"], NOTE))
    work.reports = [decode_report(data) for data in notes["value"].to_pylist()]
    for report in work.reports:
        replay(report.log)
    failed = rows.filter(pc.equal(rows["kind"], FAILURE))
    if len(failed):
        raise unpack_failure(failed["value"][0].as_py())
    work.rows = rows


def begin(work: Work) -> None:
    """Open the transaction."""
    work.context.producer.begin()


def produce_sinks(work: Work) -> None:
    """Produce the rows of the sinks, in order."""
    rows = _of_kind(work, SINK)
    added: Headers = ()
    if work.context.config["epoch_header"] is not None:
        added = ((work.context.config["epoch_header"], str(work.request.epoch).encode()),)
    for topic, batch in _by_name(rows):
        work.written[topic] += len(batch)
        work.written_bytes[topic] += _bytes_in(batch["key"]) + _bytes_in(batch["value"])
        ProductionErrorHandler(work, _origins(batch)).hand_over(_columns(topic, batch, added))


def produce_changelog(work: Work) -> None:
    """Produce the rows of the changelogs; the partition is the shard."""
    rows = _of_kind(work, CHANGELOG)
    for store, batch in _by_name(rows):
        work.context.producer.produce_columns(_columns(changelog_name(work.application_id, store), batch))
    ends = {store: list(by_shard) for store, by_shard in work.ends.items()}
    marker = int(work.context.exactly_once)
    for (store, shard), count in _counts(rows).items():
        # The marker counts: an aborted transaction may have left one, not written yet, where it had no row. Not to have seen it
        # makes this end too small by one, and no row is lost by that as long as the last offset before it is no row's.
        ends[store][shard] += count + marker
        work.changed[store] += count
    request = work.request
    after = work.committed.after(
        request.token, work.reports, work.positions, ends, now=request.now, time_update=request.time_update
    )
    work.after = replace(after, topic_ids=dict(work.topic_ids))


def produce_epoch_record(work: Work) -> None:
    """Produce the epoch record, from which the next start resumes."""
    assert work.after is not None
    now = work.context.clock.now_ms()
    record = work.after.record(
        work.request.token,
        fingerprint=work.context.fingerprint,
        topology=work.context.topology,
        stores=work.context.stores,
        committed_at=now,
        profile=work.profile,
    )
    limit = work.context.limits.of(epochs_name(work.application_id)).row_bytes or 2 * PART_BYTES
    work.context.producer.produce(rows_of(record, now, limit))


def send_offsets(work: Work) -> None:
    """Commit the group's offsets with the transaction, so that Kafka's own tools show the lag."""
    if work.positions:
        work.context.producer.send_offsets(work.application_id, work.positions)


def commit(work: Work) -> None:
    """Commit the transaction: everything becomes visible at once."""
    work.context.producer.commit()


def changelog_rows(work: Work, stores: Container[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the changelog rows of some stores, (store, rows) each, as they were produced."""
    return ((store, batch) for store, batch in _by_name(_of_kind(work, CHANGELOG)) if store in stores)


#: what each step of the table does; ``publish`` is the loop's
PERFORM: Mapping[EpochState, Step] = {
    EpochState.RUN_LANES: run_lanes,
    EpochState.BEGIN: begin,
    EpochState.PRODUCE_SINKS: produce_sinks,
    EpochState.PRODUCE_CHANGELOG: produce_changelog,
    EpochState.PRODUCE_EPOCH_RECORD: produce_epoch_record,
    EpochState.SEND_OFFSETS: send_offsets,
    EpochState.COMMIT: commit,
}


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


def _counts(rows: pa.Table) -> Counter[tuple[str, int]]:
    """Return how many rows there are of each name and partition. To group a few rows takes Arrow a millisecond."""
    found: Counter[tuple[str, int]] = Counter()
    for batch in rows.to_batches():
        names, partitions = batch["name"], batch["partition"].to_numpy()
        width = int(partitions.max(initial=0)) + 1
        counts = np.bincount(names.indices.to_numpy() * width + partitions)
        for at in np.flatnonzero(counts).tolist():
            found[names.dictionary[at // width].as_py(), at % width] += int(counts[at])
    return found


def _bytes_in(column: pa.Array) -> int:
    return int(pc.sum(pc.binary_length(column)).as_py() or 0)


def _by_name(rows: pa.Table) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield rows of one topic or store at a time. Those of one stay in order, and nobody sees the order of two."""
    for batch in rows.to_batches():
        names = batch["name"]
        for number, name in enumerate(names.dictionary.to_pylist()):
            mine = batch if len(names.dictionary) == 1 else batch.filter(pc.equal(names.indices, number))
            if len(mine):  # rows may have lost others of their batch, names have not
                yield name, mine


def _columns(topic: str, rows: pa.RecordBatch, added: Headers = ()) -> RowColumns:
    """Return rows as the producer takes them, with headers added to their own."""
    column, headers = rows["headers"], None
    if added or column.null_count < len(column):
        headers = [(*unpack_headers(given), *added) for given in column.to_pylist()]
    times = rows["timestamp"].to_numpy()
    return RowColumns(topic, rows["partition"].to_numpy(), rows["key"], rows["value"], times, headers)


def _origins(rows: pa.RecordBatch) -> list[bytes | None]:
    """Return where the rows came from; nothing where no policy wants to know."""
    column = rows["place"]
    return [] if column.null_count == len(column) else column.to_pylist()
