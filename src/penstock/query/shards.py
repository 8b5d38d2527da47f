"""Shards at a barrier, read from what the lanes keep on this machine. Nothing is written, no lane waits for it.

A shard's local copy is, for a barrier, in one of these ways::

    at its version                   it is read as it is
    one version behind               the lane has not applied its pending files yet: they are read above it
    at a later version               there was another barrier: `ShardIsNewer`, and the reader goes on to that one
    anything else                    it is being made anew: `ShardNotReady`

Which version a shard has at a barrier is part of the barrier (``ShardRequest``); what a local copy has is read in the
same LMDB transaction as its rows. So shards that were opened one after the other are of one barrier if each of them
is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.lane.checkpoint import ShardCheckpoint, ShardIsNewer, checkpoint_of, is_beyond
from penstock.lane.global_tables import reached_of
from penstock.lane.memory_stores import SplitState, is_in_memory
from penstock.protocol.request import EpochRequest, ShardRequest, Stage, offsets
from penstock.protocol.state_folder import application_folder, memory_folder
from penstock.query.shard_views import is_open
from penstock.state import pending
from penstock.state.base import ShardState
from penstock.state.lmdb_snapshot import LmdbSnapshot
from penstock.state.lmdb_store import MAX_MAPS, LmdbState, NothingThere, TooManyMaps
from penstock.state.memory import MemoryState
from penstock.state.overlay import OverlayState
from penstock.state.spec import StoreKind, StoreSpec

#: bytes of address space for the maps of all shards: a file cannot grow past its share of it
ADDRESS_SPACE, MOST_SPACE = 1 << 45, 1 << 38
#: maps of a store in a shard: segments, those that are about to go, and an index by time of each
SEGMENTED, OTHER_MAPS = 20, 5

#: bytes of pending writes that are read in less than a millisecond or two
FEW_BYTES = 128 << 10


class ShardNotReady(Exception):
    """The local copy of a shard is not at the barrier, and not on its way there by what is at hand."""


def sizes_of(shards: Sequence[Mapping[str, tuple[int, int]]], stores: frozenset[str]) -> dict[str, tuple[int, int]]:
    """Add the sizes of maps to their stores: a store has the map of its name, or segments; an index beside them has bytes alone.

    >>> shards = [{"w": (1, 20), "w/7": (2, 100), "w/7/t": (2, 50)}, {"w": (1, 20), "c": (3, 9), "x": (1, 1)}]
    >>> sizes_of(shards, frozenset({"w", "c"}))
    {'w': (2, 190), 'c': (3, 9)}
    """
    found: dict[str, tuple[int, int]] = {}
    segmented = {name.partition("/")[0] for maps in shards for name in maps if "/" in name}
    for maps in shards:
        for name, (entries, size) in maps.items():
            store, _, part = name.partition("/")
            if store in stores:
                known = found.get(store, (0, 0))
                counts = part.isdigit() if store in segmented else not part
                found[store] = known[0] + (entries if counts else 0), known[1] + size
    return found


class LocalShards:
    """The shards of an application whose lanes run on this machine."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.folder = application_folder(stage)
        topology = stage.plan.topology
        specs = {store: topology.stores[store] for step in stage.plan.steps for store in step.stores}
        self._in_memory = frozenset(name for name, spec in specs.items() if is_in_memory(spec))
        self._on_disk = frozenset(specs) - self._in_memory
        self._memory = memory_folder(stage, self.folder) if self._in_memory else None
        self._space = min(MOST_SPACE, ADDRESS_SPACE // (2 * stage.shards + 1))
        self._most_maps = _most_maps({**specs, **{name: topology.stores[name] for name in topology.global_stores}})
        self._opened: set[str] = set()

    def open(self, shard: int, request: EpochRequest) -> ShardState:
        """Return a shard at the barrier of the request, to be closed by the caller."""
        order = request.shards[shard]
        if not order.version:  # nothing was ever written to it
            return MemoryState()
        home = self.folder / f"shard-{shard}"
        disk = self._part(home, home, order, request.incarnation, self._on_disk)
        if self._memory is None:
            return disk
        try:
            path = self._memory / f"shard-{shard}"
            rest = self._part(path, home, order, f"{request.incarnation}@{self.stage.run}", self._in_memory)
        except BaseException:
            disk.close()
            raise
        return SplitView(disk, rest, self._in_memory)

    def open_global(self, request: EpochRequest) -> ShardState:
        """Return the global tables at the barrier of the request, to be closed by the caller."""
        wanted = offsets(request.global_ends)
        shot = self._snapshot(self.folder / "global")
        checkpoint = checkpoint_of(shot)
        incarnation, found = checkpoint.incarnation, reached_of(checkpoint)
        if incarnation == request.incarnation and all(found.get(place, 0) == end for place, end in wanted.items()):
            return shot
        shot.close()
        if incarnation == request.incarnation and all(found.get(place, 0) >= end for place, end in wanted.items()):
            raise ShardIsNewer("the global tables are read further than at this barrier")
        raise ShardNotReady("the global tables")

    def opens_at_once(self, shard: int, request: EpochRequest) -> bool:
        """Whether a shard's file is open already, and its pending writes are few."""
        order, home = request.shards[shard], self.folder / f"shard-{shard}"
        if LmdbState.opened(home) is None:
            return not order.version
        try:
            return sum((home / name).stat().st_size for name in order.pending) <= FEW_BYTES
        except FileNotFoundError:  # applied meanwhile
            return True

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return entries and bytes of each store in the local copies: about as many as there are, for the price of a look."""
        every: list[dict[str, tuple[int, int]]] = []
        for shard in range(self.stage.shards):
            for folder in (self.folder, self._memory):
                if folder is None:
                    continue
                try:
                    shot = self._snapshot(folder / f"shard-{shard}")
                except ShardNotReady:
                    continue
                try:
                    every.append(shot.sizes())
                finally:
                    shot.close()
        return sizes_of(every, self._on_disk | self._in_memory)

    def close(self) -> None:
        """Close the files."""
        for path in self._opened:
            state = LmdbState.opened(path)
            if state is not None:
                state.close()
        self._opened.clear()

    # ---- one environment

    def _part(
        self, path: Path, home: Path, order: ShardRequest, incarnation: str, stores: frozenset[str]
    ) -> ShardState:
        """Return an environment of a shard at a version; its pending files are at home."""
        was_behind = False
        while True:
            state, checkpoint = self._at_checkpoint(path, incarnation)
            if checkpoint.version == order.version:
                return state
            is_behind = checkpoint.version == order.before and bool(order.pending)
            if is_behind and (above := _pending(state, home, order, stores)) is not None:
                return above
            state.close()
            if is_beyond(checkpoint, incarnation, order.version):
                raise ShardIsNewer(f"{path.name} has come to a barrier after {order.version}")
            if not is_behind or was_behind:
                raise ShardNotReady(path.name)
            was_behind = True  # its lane has applied them meanwhile, or they are not here

    def _at_checkpoint(self, path: Path, incarnation: str) -> tuple[ShardState, ShardCheckpoint]:
        """Return the rows of an environment and which barrier they are at.

        Those of another incarnation, or that are not there yet, are none.
        """
        try:
            shot = self._snapshot(path)
        except ShardNotReady:
            return MemoryState(), ShardCheckpoint(incarnation)
        checkpoint = checkpoint_of(shot)
        if checkpoint.incarnation == incarnation:
            return shot, checkpoint
        shot.close()
        return MemoryState(), ShardCheckpoint(incarnation)

    def _snapshot(self, path: Path) -> LmdbSnapshot:
        try:
            while (state := self._state(path)) is not None:
                try:
                    return state.snapshot()
                except TooManyMaps:
                    if self._most_maps >= MAX_MAPS:
                        raise
                    state.close()  # ends its snapshots: how many maps there may be is said when it is opened
                    self._most_maps = min(4 * self._most_maps, MAX_MAPS)
        except NothingThere as error:
            raise ShardNotReady(path.name) from error
        raise ShardNotReady(path.name)

    def _state(self, path: Path) -> LmdbState | None:
        """Return the environment at a path, opened to be read; None if there is none (yet)."""
        found = LmdbState.opened(path)
        if found is None and LmdbState.is_at(path):
            found = LmdbState.at(path, readonly=True, map_size=self._space, max_maps=self._most_maps)
            self._opened.add(found.path)
        return found


def _pending(base: ShardState, home: Path, order: ShardRequest, stores: frozenset[str]) -> ShardState | None:
    """Return a shard with its pending writes above it, None if they are not at hand."""
    try:
        files = [pending.unpack(pending.read(home, name)) for name in order.pending]
    except (FileNotFoundError, pending.Undecodable):
        return None
    above = base
    for sealed in files:
        above = PendingState(above, {name: writes for name, writes in sealed.items() if name in stores})
    return above


class PendingState(OverlayState):
    """A shard with pending writes above it; closing it closes the shard."""

    @property
    def is_open(self) -> bool:
        """Whether it can be read."""
        return is_open(self._base)

    def close(self) -> None:
        """Close what is below."""
        self._base.close()


class SplitView(SplitState):
    """A shard whose stores are on disk and in memory."""

    @property
    def is_open(self) -> bool:
        """Whether it can be read."""
        return is_open(self._disk) and is_open(self._memory)


def _most_maps(specs: Mapping[str, StoreSpec]) -> int:
    """Return how many maps a shard may have: each costs memory in every transaction."""
    segmented = (StoreKind.WINDOW, StoreKind.SESSION, StoreKind.OUTER_JOIN)
    return 8 + sum(SEGMENTED if spec.kind in segmented else OTHER_MAPS for spec in specs.values())
