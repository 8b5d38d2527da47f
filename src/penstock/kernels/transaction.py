"""A batch transaction: what the kernels of a batch would do, done once all of them have run, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.fallback import Fallback, Undecodable

logger = logging.getLogger("penstock.batch")

#: calls something on behalf of a node: (node, what, its arguments)
RunAtNode: TypeAlias = Callable[..., None]


class BatchTransaction:
    """What is to happen when all kernels of a batch have run. Nothing that is added may fail.

    >>> transaction, done = BatchTransaction(), []
    >>> transaction.on_commit(lambda: done.append("written"))
    >>> mark = transaction.savepoint()
    >>> transaction.on_commit(lambda: done.append("never"))
    >>> transaction.rollback_to(mark)
    >>> transaction.commit()
    >>> done
    ['written']
    """

    __slots__ = ("_effects", "_node", "_run", "failed_at", "published")

    def __init__(self) -> None:
        self._effects: list[tuple[str | None, Callable[[], None]]] = []
        #: the node whose kernel runs now, and who calls what it has added
        self._node: str | None = None
        self._run: RunAtNode | None = None
        #: what kernels are about to write, by store: readers in the same batch see it as of the position of each record
        self.published: dict[str, Any] = {}
        #: the node that first raised, if one has
        self.failed_at: str | None = None

    def on_commit(self, effect: Callable[[], None]) -> None:
        """Do something once all kernels have run, in the order of the calls."""
        self._effects.append((self._node, effect))

    def run_at(self, node: str, run: RunAtNode, on_batch: OnBatch, batch: Batch) -> None:
        """Run the kernel of a node; ``run`` calls it, and later what it adds."""
        before, self._node, self._run = self._node, node, run
        try:
            run(node, on_batch, batch, self)
        finally:
            self._node = before

    def drop(self, drop: Callable[[str], None], reason: str, count: int) -> None:
        """Count records as dropped."""
        if count:
            self.on_commit(partial(_repeat, drop, reason, count))

    def savepoint(self) -> int:
        """Return a mark that ``rollback_to`` takes."""
        return len(self._effects)

    def rollback_to(self, mark: int) -> None:
        """Forget what was added since a savepoint; the node that raised has found another way."""
        del self._effects[mark:]
        self.failed_at = None

    def commit(self) -> None:
        """Perform the effects, in the order in which they were added."""
        for node, effect in self._effects:
            if node is None or self._run is None:
                effect()
            else:
                self._run(node, effect)


def _repeat(drop: Callable[[str], None], reason: str, count: int) -> None:
    for _ in range(count):
        drop(reason)


#: takes a batch; what it would write it adds to the transaction. Whatever it raises, nothing has happened
OnBatch: TypeAlias = Callable[[Batch, BatchTransaction], None]
#: is told of a batch that fell back: (node or None where it is not known, reason)
OnFallback: TypeAlias = Callable[[str | None, str], None]


def run_or_fall_back(
    steps: Iterable[Callable[[BatchTransaction], None]], *, must: bool = False, fell_back: OnFallback | None = None
) -> bool:
    """Run steps in one transaction and commit it; False, and nothing has happened, if one has raised.

    Whatever it raised: on the record path a record is told of with its node, or the policy is asked. ``must``: there is no record path.
    ``Undecodable`` is raised.
    """
    transaction = BatchTransaction()
    try:
        for step in steps:
            step(transaction)
    except Undecodable:
        raise
    except Exception as error:
        if must:
            raise
        if not isinstance(error, Fallback):  # if it is a fault of ours, nothing but the counter and the time tell of it
            logger.debug("a batch goes to the record path", exc_info=True)
        if fell_back is not None:
            fell_back(transaction.failed_at, reason_of(error))
        return False
    transaction.commit()
    return True


def reason_of(error: Exception) -> str:
    """Return why a batch fell back, in a word for the counters.

    >>> reason_of(Fallback("null_key")), reason_of(KeyError("n"))
    ('null_key', 'function_raised')
    """
    return error.reason if isinstance(error, Fallback) else "function_raised"


def forwarding(forward: OnBatch) -> Callable[[Batch], bool]:
    """Return what forwards the changed rows of a cached store as a batch; False, and nothing has happened, if it cannot."""
    return lambda batch: run_or_fall_back([partial(forward, batch)])


def present(transaction: BatchTransaction, drop: Callable[[str], None], **needed: Column) -> list[int] | None:
    """Return the places of the records that miss nothing, None: all; the others are dropped, for the first thing missing.

    >>> dropped, transaction = [], BatchTransaction()
    >>> present(transaction, dropped.append, null_value=Column([1, None, 3]), null_key=Column(["a", "b", None]))
    [0]
    >>> transaction.commit()
    >>> dropped
    ['null_value', 'null_key']
    """
    if not any(column.has_nulls for column in needed.values()):
        return None
    at: list[int] = []
    for place, items in enumerate(zip(*(column.items for column in needed.values()), strict=True)):
        if None not in items:
            at.append(place)
        else:
            reason = next(reason for reason, item in zip(needed, items, strict=True) if item is None)
            transaction.on_commit(partial(drop, reason))
    return at


def with_keys(on_batch: OnBatch, drop: Callable[[str], None]) -> OnBatch:
    """Return what takes the records that have a key, and drops the others."""

    def take(batch: Batch, transaction: BatchTransaction) -> None:
        at = present(transaction, drop, null_key=batch.keys)
        if at is not None:
            batch = batch.pick(at)
        if len(batch):
            on_batch(batch, transaction)

    return take
