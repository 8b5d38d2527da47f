"""The shards of one executor: each is brought to the last barrier before anything reads it.

A shard's folder holds its LMDB environment, its checkpoint (``checkpoint``) and the pending
files of its last epoch. Three ways to the version that the driver names::

    it is there already          nothing to do
    it is one version behind     and the pending files are here: apply them            (the usual way)
    anything else                read what is missing from the changelog               (restart, another executor)

Invariant: rows and checkpoint change in one LMDB transaction, under a lock of the shard, so any process of this machine may do it and
a crash leaves the shard at a checkpoint that is true.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import numpy as np

from penstock.clock import SystemClock
from penstock.files import locked, private_folder
from penstock.lane.checkpoint import ShardCheckpoint, ShardIsNewer, checkpoint_of, is_beyond, write_checkpoint
from penstock.lane.decoding import without_undecodable
from penstock.log.base import LogRecord
from penstock.log.kafka import KafkaLog
from penstock.log.reader import KafkaReader
from penstock.log.topics import changelog_name
from penstock.protocol.request import EpochRequest, ShardRequest, Stage, offsets
from penstock.protocol.state_folder import application_folder
from penstock.state import pending
from penstock.state.base import ShardState
from penstock.state.lmdb_pages import heal
from penstock.state.lmdb_store import LmdbState
from penstock.state.restore import Restorer
from penstock.state.shards import shard_column
from penstock.state.spec import StoreSpec

logger = logging.getLogger("penstock.lane")

#: changelog rows read at a time
BATCH = 10_000
#: a copy that is behind by more (half of Kafka's delete.retention.ms) is made anew
OLDEST_MS = 12 * 60 * 60 * 1000


class Shards:
    """The shards below one state folder. ``stage`` says which stores there are and how the changelogs are reached."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.folder = application_folder(stage)
        topology = stage.plan.topology
        self._specs = {store: topology.stores[store] for step in stage.plan.steps for store in step.stores}
        self._log: KafkaLog | None = None
        self._reader: KafkaReader | None = None
        self.restored = 0
        #: the same, by store
        self.restored_by: Counter[str] = Counter()
        self._paths: dict[int, Path] = {}
        self._opened: set[int] = set()

    def path(self, shard: int) -> Path:
        """Return the folder of a shard."""
        found = self._paths.get(shard)
        if found is None:
            found = self._paths[shard] = self.folder / f"shard-{shard}"
        return found

    def pending_folder(self, shard: int) -> Path:
        """Return where the writes of an epoch that is not known to be committed are kept."""
        return self.path(shard)

    def open(self, shard: int, request: EpochRequest, *, back: bool = True) -> ShardState:
        """Return the state of a shard at the last barrier. What was read to find out is what the caller goes on reading.

        ``back``: make it anew if it is at a later barrier, which then was none; else raise ``ShardIsNewer``.
        """
        wanted = (request.incarnation, request.shards[shard].version)
        state = self._state(shard)
        checkpoint = checkpoint_of(state)
        if (checkpoint.incarnation, checkpoint.version) != wanted:
            with self._locked(shard):
                state = self._state_alone(shard)
                if not back and is_beyond(checkpoint_of(state), *wanted):
                    raise ShardIsNewer(f"shard {shard} has come to a barrier after {wanted[1]}")
                self._bring_up(shard, request.shards[shard], request, state)
            state = self._state(shard)
        state.may_reopen = back
        return state

    def _state(self, shard: int) -> LmdbState:
        """Return the environment of a shard as other processes left it."""
        state = LmdbState.opened(self.path(shard))
        if state is None:
            with self._locked(shard):
                return self._state_alone(shard)
        state.release()
        return state

    def _state_alone(self, shard: int) -> LmdbState:
        """Return it to who has the lock. What this process has not open yet is checked first, and thrown away if it is damaged."""
        path = self.path(shard)
        state = LmdbState.opened(path)
        if state is None:
            heal(path, self.stage.run)
            state = self._open_alone(shard)
        state.release()
        return state

    def _open_alone(self, shard: int) -> LmdbState:
        state = LmdbState.at(self.path(shard), checksums=True)
        self._opened.add(shard)
        state.look()  # what is made at the first look is made under the lock
        return state

    def approach(self, shard: int, request: EpochRequest) -> tuple[int, dict[str, int]]:
        """Bring a shard to the last barrier, or nearer by so many rows as the request allows.

        Return how many rows were read, and the offsets that are left by store.
        """
        before = self.restored
        self.open(shard, request)
        checkpoint = self.checkpoint(shard)
        left: dict[str, int] = {}
        if checkpoint.version is None:
            read = {name: dict(places) for name, places in checkpoint.read.items()}
            for name, places in self._ends(shard, request).items():
                left[name] = sum(max(0, end - read.get(name, {}).get(partition, 0)) for partition, end in places)
        return self.restored - before, left

    def checkpoint(self, shard: int) -> ShardCheckpoint:
        """Return which barrier the local copy of a shard is at."""
        return checkpoint_of(self._state(shard))

    def keep_pending(self, shard: int, name: str, data: bytes) -> None:
        """Keep the writes of an epoch that is not committed yet; those of earlier epochs are in the state and go."""
        folder = self.path(shard)
        pending.write(folder, name, data)

    def clear_pending(self, shard: int, token: str) -> None:
        """Delete the pending files of all runs but one: the shard has been brought up, so they are of no use."""
        pending.clear(self.path(shard), keep=token)

    def drop_pending(self, shard: int, names: Iterable[str]) -> None:
        """Delete pending files that have been applied; whoever looks for them finds the shard beyond them."""
        for name in names:
            (self.path(shard) / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the connections and the files."""
        for shard in self._opened:
            state = LmdbState.opened(self.path(shard))
            if state is not None:
                state.close()
        self._opened.clear()
        if self._log is not None:
            self._log.close()
            self._log = self._reader = None

    # ---- to the last barrier

    def _bring_up(self, shard: int, order: ShardRequest, request: EpochRequest, state: LmdbState) -> None:
        checkpoint = checkpoint_of(state)
        if checkpoint.incarnation != request.incarnation:
            if checkpoint.incarnation:
                state.destroy()
                state = self._open_alone(shard)
            checkpoint = ShardCheckpoint(request.incarnation)
        if checkpoint.version == order.version:
            return
        if checkpoint.version == order.before and self._apply_pending(state, checkpoint, shard, order, request):
            return
        if self._ahead(checkpoint, shard, request) or self._too_old(checkpoint):
            state.destroy()
            state = self._open_alone(shard)
            checkpoint = ShardCheckpoint(request.incarnation)
        self._restore(state, checkpoint, shard, order, request)

    def _apply_pending(
        self, state: LmdbState, checkpoint: ShardCheckpoint, shard: int, order: ShardRequest, request: EpochRequest
    ) -> bool:
        """Apply the files that lead to the version; False if one is not here, or not of this version of the program."""
        try:
            files = [pending.read(self.pending_folder(shard), name) for name in order.pending]
            if not files:
                return False
            with state.batch():
                for data in files:
                    pending.apply(state, data, self._specs)
                write_checkpoint(state, checkpoint, order.version, self._ends(shard, request))
        except FileNotFoundError:
            return False
        except pending.Undecodable as error:
            logger.warning("shard %d reads its changelog: %s", shard, error)
            return False
        return True

    def _ahead(self, checkpoint: ShardCheckpoint, shard: int, request: EpochRequest) -> bool:
        """Whether the copy has read more than there is: its topics were made anew."""
        ends = self._ends(shard, request)
        return any(
            offset > dict(ends.get(store, ())).get(partition, 0)
            for store, read in checkpoint.read.items()
            for partition, offset in read
        )

    @staticmethod
    def _too_old(checkpoint: ShardCheckpoint) -> bool:
        """Whether the changelog may have lost deletes that the copy has not seen: compaction keeps them for a day only."""
        return bool(checkpoint.read) and SystemClock().now_ms() - checkpoint.at > OLDEST_MS

    def _restore(
        self, state: LmdbState, checkpoint: ShardCheckpoint, shard: int, order: ShardRequest, request: EpochRequest
    ) -> None:
        """Read what is missing. A store without a changelog keeps what it has only if nothing is missing: it begins anew."""
        for name, spec in self._specs.items():
            if not spec.logged and spec.source_topic is None:
                for part in [n for n in state.names() if n == name or n.startswith(f"{name}/")]:
                    state.drop(part)
        ends = self._ends(shard, request)
        budget = self.restored + request.restore_limit if request.restore_limit else None
        for name, places in ends.items():
            read = dict(checkpoint.read.get(name, ()))
            for partition, end in places:
                self._restore_partition(state, checkpoint, shard, name, partition, read.get(partition, 0), end, budget)
                if budget is not None and self.restored >= budget:
                    return
        with state.batch():
            write_checkpoint(state, checkpoint, order.version, ends)

    def _restore_partition(
        self,
        state: LmdbState,
        checkpoint: ShardCheckpoint,
        shard: int,
        name: str,
        partition: int,
        start: int,
        end: int,
        budget: int | None,
    ) -> None:
        waiting, reached = Restorer(self._specs[name]), start
        room = None if budget is None else budget - self.restored
        for reached, keys, values, times in self._rows(self._specs[name], shard, partition, start, end, room):
            waiting.add(keys, values, times)
            if waiting.is_full() or (budget is not None and self.restored + len(waiting) >= budget):
                self._write(state, checkpoint, name, partition, reached, waiting)
            if budget is not None and self.restored >= budget:
                return
        if len(waiting):
            self._write(state, checkpoint, name, partition, reached, waiting)

    def _write(
        self, state: LmdbState, checkpoint: ShardCheckpoint, name: str, partition: int, reached: int, waiting: Restorer
    ) -> None:
        """Write what was read of a changelog partition, and that it was: a restore may end here and go on later."""
        read = dict(checkpoint.read.get(name, ()))
        read[partition] = reached
        count = len(waiting)
        with state.batch():
            waiting.write_to(state)
            write_checkpoint(state, checkpoint, None, {**checkpoint.read, name: sorted(read.items())})
        self.restored += count
        self.restored_by[name] += count

    def _rows(
        self, spec: StoreSpec, shard: int, partition: int, start: int, end: int, room: int | None
    ) -> Iterator[tuple[int, list[bytes], list[bytes | None], list[int]]]:
        """Yield the changelog rows of a shard by column, with the offset after them; not many more than there is room for."""
        if start >= end:
            return
        topic = spec.source_topic or changelog_name(self.stage.application_id, spec.name)
        first, most = self._from(topic, partition, start), BATCH if room is None else max(1, min(BATCH, room))
        if spec.source_topic is not None:
            yield from self._source_rows(topic, shard, partition, first, end, most)
            return
        for reached, keys, values, times in self.reader().columns(topic, partition, first, end, most):
            if None in keys:  # a row without a key is nobody's
                kept = [place for place, key in enumerate(keys) if key is not None]
                values, times = [values[place] for place in kept], [times[place] for place in kept]
                keys = [keys[place] for place in kept]
            if keys:
                yield reached, cast("list[bytes]", keys), values, times

    def _source_rows(
        self, topic: str, shard: int, partition: int, start: int, end: int, most: int
    ) -> Iterator[tuple[int, list[bytes], list[bytes | None], list[int]]]:
        """Yield those records of a source topic that became rows of a shard: not those without a key, or that cannot be read."""
        source = next(node for node in self.stage.sources.values() if node.reads(topic))
        shards = 1 if self._goes_to_one_shard(topic) else self.stage.shards
        for rows in self.reader().rows(topic, partition, start, end, most):
            mine = np.flatnonzero(shard_column(rows.keys, shards, -1) == shard)
            found = without_undecodable(rows.pick(mine.tolist()), source)
            if found.size:
                keys, values = found.keys.to_pylist(), found.values.to_pylist()
                yield int(rows.offsets[-1]) + 1, keys, values, found.timestamps.tolist()

    def _goes_to_one_shard(self, topic: str) -> bool:
        """Whether all records of a source topic go to one shard."""
        return any(topic in self.stage.sources[name].topics for name in self.stage.plan.one_shard)

    def _ends(self, shard: int, request: EpochRequest) -> dict[str, list[tuple[int, int]]]:
        """Return up to where each logged store's log is part of the last barrier."""
        positions = offsets(request.positions)
        ends: dict[str, list[tuple[int, int]]] = {}
        for name, spec in self._specs.items():
            if spec.source_topic is not None:
                ends[name] = sorted((p, end) for (topic, p), end in positions.items() if topic == spec.source_topic)
            elif spec.logged and name in request.changelogs:
                ends[name] = [(shard, request.changelogs[name][shard])]
        return ends

    # ---- the log

    def records(self, topic: str, partition: int, start: int, end: int) -> Iterator[LogRecord]:
        """Return the committed records of a range, from where the partition begins at the earliest."""
        return self.reader().read(topic, partition, self._from(topic, partition, start), end)

    def reader(self) -> KafkaReader:
        """Return this process' reader of committed records."""
        if self._reader is None:
            self._reader = self.log.reader()
        return self._reader

    def _from(self, topic: str, partition: int, start: int) -> int:
        return max(start, self.log.admin.earliest_offsets([(topic, partition)])[topic, partition])

    @property
    def log(self) -> KafkaLog:
        """The cluster, for what is missing here."""
        if self._log is None:
            self._log = KafkaLog(self.stage.bootstrap_servers, self.stage.kafka)
        return self._log

    @contextmanager
    def _locked(self, shard: int) -> Iterator[None]:
        private_folder(self.folder)
        with locked(f"{self.path(shard)}.lock"):
            yield
