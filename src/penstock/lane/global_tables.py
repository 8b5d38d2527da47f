"""Global tables in an executor: one environment that all its lanes read, brought up to the epoch's offsets before any lane runs.

Whoever comes first takes the lock and applies what is missing; the others find it done. Rows and positions change in one LMDB
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

from penstock.clock import Clock
from penstock.errors import DeserializationError, TimestampError
from penstock.files import locked, private_folder
from penstock.lane.checkpoint import ShardCheckpoint, checkpoint_of, write_checkpoint
from penstock.lane.shards import Shards
from penstock.lane.sink import Row
from penstock.lane.source import Raw, SourceReader
from penstock.lane.task import Task
from penstock.log.base import Offsets
from penstock.protocol.failed_records import FailureGroup
from penstock.protocol.request import EpochRequest, Stage, offsets
from penstock.record import NO_ORIGIN
from penstock.state.base import ShardState
from penstock.state.lmdb_pages import heal
from penstock.state.lmdb_store import LmdbState
from penstock.topology.topology import Topology

#: records applied at a time
CHUNK = 20_000


class GlobalEnvironment:
    """The global tables as one worker sees them."""

    def __init__(self, stage: Stage, shards: Shards, clock: Clock) -> None:
        self._stage = stage
        self._shards = shards
        self._clock = clock
        self._folder = shards.folder / "global"
        self._tables: GlobalTables | None = None
        self._seen: tuple[str, Offsets] | None = None
        self._dead_letters: list[Row] = []
        #: the run of an epoch that the letters were last given to: (epoch, token)
        self._given: tuple[int, str] = (0, "")
        self._taken = 0

    def stores(self, request: EpochRequest) -> Mapping[str, Any]:
        """Return the stores, at the offsets of the epoch."""
        if not self._stage.plan.topology.global_stores:
            return {}
        wanted = offsets(request.global_ends)
        if self._seen is None or any(self._seen[1].get(place, 0) < end for place, end in wanted.items()):
            with (
                self._locked()
            ):  # also to open it: a folder that is made or thrown away belongs to nobody else meanwhile
                state = self._bring_up(request.incarnation, wanted)
        else:
            state = self._state()
        state.release()
        assert self._tables is not None
        return self._tables.stores

    def take_dropped(self) -> list[tuple[str, str, int]]:
        """Return what this process dropped while it applied records (node, reason, count), once.

        Every executor keeps a copy of its own, so a record is counted once for each of them.
        """
        if self._tables is None:
            return []
        found = [(*counter, count) for task in self._tables.tasks for counter, count in task.dropped.items()]
        for task in self._tables.tasks:
            task.dropped.clear()
        return found

    def take_failures(self) -> list[FailureGroup]:
        """Return the records that this process left out by a policy while it applied them, once."""
        return [] if self._tables is None else [each for task in self._tables.tasks for each in task.failures.take()]

    def take_dead_letters(self, request: EpochRequest) -> list[Row]:
        """Return the dead letters of records that this process could not read, once for a run of an epoch, until one is committed.

        Every executor keeps a copy of its own, so a record may have a letter of each of them.
        """
        if self._given[1] == request.token:
            return []
        if self._given[0] < request.epoch:  # an epoch is run when the one before is committed
            self._dead_letters = self._dead_letters[self._taken :]
        self._given, self._taken = (request.epoch, request.token), len(self._dead_letters)
        return list(self._dead_letters)

    def _state(self) -> LmdbState:
        state = LmdbState.opened(self._folder)
        if state is None:
            heal(self._folder, self._stage.run)
            state = LmdbState.at(self._folder, checksums=True)
        state.may_reopen = True
        state.release()
        return state

    def close(self) -> None:
        """Close the files."""
        state = LmdbState.opened(self._folder)
        if state is not None and self._tables is not None:
            state.close()
        self._tables = self._seen = None

    def _bring_up(self, incarnation: str, wanted: Offsets) -> LmdbState:
        state = self._state()
        checkpoint = checkpoint_of(state)
        if checkpoint.incarnation != incarnation:
            if checkpoint.incarnation:
                state.destroy()
                state = self._state()
            checkpoint = ShardCheckpoint(incarnation)
        copy_at = incarnation, reached_of(checkpoint)
        if self._tables is None or self._seen != copy_at:  # another process has gone on: what this one remembers is old
            shared = {"application_id": self._stage.application_id, "config": self._stage.config, "clock": self._clock}
            self._tables = GlobalTables(self._stage.plan.topology, state, shared, self._clock)
        for (topic, partition), end in sorted(wanted.items()):
            self._apply(state, copy_at, topic, partition, end)
        # their source record is of no topic that epochs read
        self._dead_letters += [row._replace(origin=NO_ORIGIN) for row in self._tables.take_dead_letters()]
        self._seen = copy_at
        return state

    def _apply(self, state: LmdbState, copy_at: tuple[str, Offsets], topic: str, partition: int, end: int) -> None:
        start = copy_at[1].get((topic, partition), 0)
        if start >= end:
            return
        assert self._tables is not None
        records = self._shards.records(topic, partition, start, end)
        while chunk := list(islice(records, CHUNK)):
            copy_at[1][topic, partition] = chunk[-1].offset + 1
            with state.batch():
                self._tables.apply_all([Raw(*record) for record in chunk])
                self._write_checkpoint(state, *copy_at)
        copy_at[1][topic, partition] = end
        self._write_checkpoint(state, *copy_at)

    @staticmethod
    def _write_checkpoint(state: LmdbState, incarnation: str, reached: Offsets) -> None:
        write_checkpoint(state, ShardCheckpoint(incarnation), "", read_of(reached))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        private_folder(self._shards.folder)
        with locked(str(self._shards.folder / "global.lock")):
            yield


def read_of(reached: Offsets) -> dict[str, list[tuple[int, int]]]:
    """Return offsets as a checkpoint has them.

    >>> reached_of(ShardCheckpoint(read=read_of({("rates", 1): 7, ("rates", 0): 5})))
    {('rates', 0): 5, ('rates', 1): 7}
    """
    read: dict[str, list[tuple[int, int]]] = {}
    for (topic, partition), offset in sorted(reached.items()):
        read.setdefault(topic, []).append((partition, offset))
    return read


def reached_of(checkpoint: ShardCheckpoint) -> Offsets:
    """Return the next offsets of the topics of global tables."""
    return {(topic, partition): offset for topic, read in checkpoint.read.items() for partition, offset in read}


class GlobalTables:
    """The tables that every lane reads whole. Their records are applied at once, before any lane reads."""

    def __init__(self, topology: Topology, state: ShardState, shared: Mapping[str, Any], clock: Clock) -> None:
        self.state = state
        self._readers: dict[str, tuple[SourceReader, Task]] = {}
        self.stores: dict[str, Any] = {}
        self.tasks: list[Task] = []
        for name, table in topology.global_stores.items():
            task = Task(topology, 0, state, nodes=[table.source.name, table.processor.name], **shared)
            self.tasks.append(task)
            self.stores[name] = task.stores[name]
            for topic in table.source.topics:
                self._readers[topic] = (SourceReader(table.source, clock), task)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that feed global tables."""
        return tuple(self._readers)

    def take_dead_letters(self) -> list[Row]:
        """Return the dead letters of records that could not be read, once."""
        return [row for task in self.tasks for row in task.take_rows()]

    def apply(self, raw: Raw) -> None:
        """Update the table that a topic feeds, at once."""
        self.apply_all([raw])

    def apply_all(self, raws: Iterable[Raw]) -> None:
        """Update the tables. The policy is asked about a record that cannot be read; one without a time is dropped and counted."""
        touched: dict[int, Task] = {}
        for raw in raws:
            reader, task = self._readers[raw.topic]
            try:
                key, value, timestamp = reader.read(raw, -1)
            except DeserializationError as error:
                task.errors.refuse_input(reader.source.name, raw, error)
                continue
            except TimestampError:
                task.drop_at(reader.source.name, "negative_timestamp")
                continue
            origin = raw.coordinates()._replace(timestamp=timestamp)
            task.process(reader.source.name, key, value, timestamp, raw.headers, origin)
            touched[id(task)] = task
        for task in touched.values():
            task.flush()
            task.apply(task.seal())
            task.origin = NO_ORIGIN
