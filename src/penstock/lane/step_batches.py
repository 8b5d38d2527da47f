"""The records of a step run through its tasks: by column, if they and the nodes are such, else one by one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from penstock.batch.batch import Batch
from penstock.batch.fallback import Undecodable
from penstock.lane.dead_letters import order_dead_letters
from penstock.lane.decoding import Sources
from penstock.lane.mixed import Mixed, Work
from penstock.lane.ordering import ShortRun, SourceBatch
from penstock.lane.step_tasks import PhaseTimer, StepTasks
from penstock.lane.task import Task

#: fewer records than these go one by one: a column is not worth its making
FEW = 4
#: rows of a batch that was given up which are tried by column again, and else go one by one
PART = 1024


class StepBatches:
    """Runs the batches of one step. ``in_windows``: few records at a time, whose objects then stay near."""

    def __init__(
        self, sources: Sources, tasks: StepTasks, timer: PhaseTimer, *, dead_letters: str | None, in_windows: bool
    ) -> None:
        self._sources = sources
        self._tasks = tasks
        self._timer = timer
        self._dead_letters = dead_letters
        self._in_windows = in_windows
        #: sources of which records have come that cannot be read
        self._undecodable: set[str] = set()

    def process(self, batch: Work) -> None:
        """Run the records of a batch."""
        task = self._tasks.of(batch.shard)
        if isinstance(batch, Mixed):
            if not self._process_together(batch, task):
                self._process_mixed_parts(batch, task)
            return
        if isinstance(batch, ShortRun):
            self._process_records(batch, task)
            return
        if batch.counted:
            task.batches.process(batch.source, self._sources.counted(batch))
            return
        for part in batch.windows() if self._in_windows else (batch,):
            if not self._process_batch(part, task):
                self._process_parts(part, task)

    def _process_parts(self, batch: SourceBatch, task: Task) -> None:
        """Run the records of a batch that was given up: few at a time by column, and one by one where that is given up, too."""
        for part in batch.windows(PART):
            if len(part) == len(batch) or not self._process_batch(part, task):
                self._process_records(part, task)

    def _process_mixed_parts(self, mixed: Mixed, task: Task) -> None:
        """Do so with rows of several sources."""
        for part in mixed.parts(PART):
            if len(part) == len(mixed) or not self._process_together(part, task):
                for batch in part.split():
                    self.process(batch)

    def _process_records(self, batch: SourceBatch | ShortRun, task: Task) -> None:
        self._timer.charge("operators")
        records = self._sources.records(batch, task)
        self._timer.charge("decode")
        task.process_all(batch.source, records)

    def _process_batch(self, batch: SourceBatch, task: Task) -> bool:
        if len(batch) < FEW or not task.batches.takes(batch.source):
            return False
        leaving = len(task.outputs)
        if not self._process_readable(batch, task):
            return False
        order_dead_letters(task.outputs, leaving, self._dead_letters, batch.provenance)
        return True

    def _process_readable(self, batch: SourceBatch, task: Task) -> bool:
        """Run the records of a batch by column that can be read, and ask the policy about the others."""
        self._timer.charge("operators")
        if batch.source not in self._undecodable:
            columns = self._sources.columns(batch, self._timer.charge)
            self._timer.charge("decode")
            with suppress(Undecodable):
                if columns is not None:
                    return task.batches.process(batch.source, columns)
            self._undecodable.add(batch.source)
        columns, others = self._sources.readable(batch)
        self._timer.charge("decode")
        if len(columns) and not task.batches.process(batch.source, columns):
            return False
        self._sources.refuse_at(batch, others, task)
        return True

    def _process_together(self, mixed: Mixed, task: Task) -> bool:
        """Run records of several sources by column; False, and nothing has happened, if they have to go apart."""
        if not task.batches.takes(*(batch.source for batch in mixed.batches)):
            return False
        leaving = len(task.outputs)
        if not self._process_readable_together(mixed, task):
            return False
        order_dead_letters(task.outputs, leaving, self._dead_letters, None)
        return True

    def _process_readable_together(self, mixed: Mixed, task: Task) -> bool:
        with suppress(Undecodable):
            parts = self._read_together(mixed, lambda batch: self._sources.columns(batch, self._timer.charge))
            if len(parts) == len(mixed.batches):
                return task.batches.process_together(parts)
        others: list[tuple[SourceBatch, list[int]]] = []

        def readable(batch: SourceBatch) -> Batch | None:
            columns, bad = self._sources.readable(batch)
            others.append((batch, bad))
            return columns if len(columns) else None

        parts = self._read_together(mixed, readable)
        if parts and not (task.batches.takes(*parts) and task.batches.process_together(parts)):
            return False
        for batch, bad in others:
            self._sources.refuse_at(batch, bad, task)
        return True

    def _read_together(self, mixed: Mixed, read: Callable[[SourceBatch], Batch | None]) -> dict[str, Batch]:
        """Return records of several sources by column, with their places; without those of which there are none."""
        parts: dict[str, Batch] = {}
        self._timer.charge("operators")
        for batch, places in zip(mixed.batches, mixed.places, strict=True):
            columns = read(batch)
            if columns is not None:
                columns.provenance.places = places
                parts[batch.source] = columns
        self._timer.charge("decode")
        return parts
