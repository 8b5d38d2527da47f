"""The batch path of a task: which batches it takes, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.kernels.chain import KernelChains, OpenChains
from penstock.kernels.kernel import KernelHost
from penstock.kernels.transaction import BatchTransaction, OnBatch, run_or_fall_back

#: runs some records; what it would write it adds to the transaction
RunBatch: TypeAlias = Callable[[BatchTransaction], None]
#: batches that may fall back in a row before records of their source go one by one until the end of the epoch
TRUST = 8


class BatchPath:
    """The kernel chains of a task, each opened when it is first asked for.

    A batch that falls back goes again in parts, and then one by one where it must. What falls back more often than not is not tried any
    more: the task lives for one epoch, and its records are alike.
    """

    def __init__(self, host: KernelHost, chains: KernelChains) -> None:
        self._host = host
        self._chains = chains
        self._open = OpenChains(host, chains)
        self._opened: dict[str, OnBatch] = {}
        #: how often batches of some sources may still fall back
        self._trust: dict[frozenset[str], int] = {}

    def takes(self, sources: Sequence[str]) -> bool:
        """Whether batches of a source may go through its chain; of several sources: whether they may go together."""
        if not all(self._takes(source) for source in sources):
            return False
        return len(sources) == 1 or (
            self._trusts(frozenset(sources)) and self._chains.order(frozenset(sources)) is not None
        )

    def run(self, source: str, batch: Batch) -> bool:
        """Run a batch of a source; False, and nothing has happened, if its records have to go one by one.

        ``Undecodable`` is raised before any function has been called: without the records that cannot be read the others may go as a batch.
        """
        return self._judged(frozenset({source}), self._run([partial(self._chain(source), batch)], {source: batch}))

    def run_together(self, parts: Mapping[str, Batch]) -> bool:
        """Run batches of several sources, whose records have places; False, and nothing has happened, if they have to go one by one."""
        sources = frozenset(parts)
        order = self._chains.order(sources)
        assert order is not None
        steps = [self._step(name, parts) for name in order]
        joins = [self._open.inputs[name] for name in order if name not in parts]
        for inputs in joins:
            inputs.wait()
        done = False
        try:
            done = self._run(steps, parts)
        finally:
            if not done:
                for inputs in joins:
                    inputs.discard()
        return self._judged(sources, done)

    def _judged(self, sources: frozenset[str], done: bool) -> bool:
        """Note whether a batch of some sources was run or fell back."""
        self._trust[sources] = min(self._trust.get(sources, TRUST) + (1 if done else -1), TRUST)
        return done

    def _trusts(self, sources: frozenset[str]) -> bool:
        return self._trust.get(sources, TRUST) > 0

    def _takes(self, source: str) -> bool:
        if isinstance(self._chains.below[source], str) or not self._trusts(frozenset({source})):
            return False
        self._chain(source)  # opened, it takes what cached stores forward, however the records have come to these
        return True

    def _step(self, name: str, parts: Mapping[str, Batch]) -> RunBatch:
        """Return what runs the batch of a source, or what was brought to a join."""
        return partial(self._chain(name), parts[name]) if name in parts else self._open.inputs[name].run

    def _chain(self, source: str) -> OnBatch:
        if source not in self._opened:
            self._opened[source] = self._open.below(source)
        return self._opened[source]

    def _run(self, steps: Sequence[RunBatch], brought: Mapping[str, Batch]) -> bool:
        """Run batches of sources; False, and nothing has happened, if their records have to go one by one."""
        batches: Collection[Batch] = brought.values()
        counted = any(batch.counts is not None for batch in batches)  # no function of the user is in the way of such
        # of one source the values are read when they are needed, which is before a function gets them: together with their keys
        first = [partial(_check, batch if len(batches) > 1 else batch.keys) for batch in batches]
        last = [partial(_check, batch) for batch in batches]

        def fell_back(node: str | None, reason: str) -> None:
            self._host.fell_back(node or ", ".join(sorted(brought)), reason)

        return run_or_fall_back([*first, *steps, *last], must=counted, fell_back=fell_back)


def _check(read: Batch | Column, _: BatchTransaction) -> None:
    read.check()
