"""A function of the user's, called for each record of a batch: the policy is asked about a record that it fails at, the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from penstock.batch.batch import Batch
from penstock.batch.fallback import InputChanged
from penstock.kernels.kernel import KernelContext
from penstock.kernels.transaction import BatchTransaction


class FailedCall(NamedTuple):
    """A record that a function failed at: its place among those it was called for, and what was raised."""

    at: int
    error: Exception


def call_each(
    context: KernelContext,
    batch: Batch,
    transaction: BatchTransaction,
    function: Callable[..., Any],
    *args: Iterable[Any],
) -> tuple[Batch, list[Any]]:
    """Call a function for each record; return the records that it did not fail at, and its answers.

    It sees each record once, whatever it does with others. ``args``: what it is called with, a column each.
    """
    answers: list[Any] = []
    failed: list[FailedCall] = []
    calls, count = map(function, *args), len(batch)
    while True:
        try:
            answers.extend(calls)  # what was answered before a failure stays there, and the calls go on behind it
            if len(answers) + len(failed) == count:
                break
            error: Exception = StopIteration()  # raised by the function, it ends the calls
        except Exception as raised:
            error = raised
        failed.append(FailedCall(len(answers) + len(failed), error))
        if not context.forgives:
            break
    if not failed:
        return batch, answers
    apply_error_policy(context, batch, transaction, failed)
    gone = {at for at, _ in failed}
    return batch.pick([at for at in range(count) if at not in gone]), answers


def apply_error_policy(
    context: KernelContext, batch: Batch, transaction: BatchTransaction, failed: list[FailedCall]
) -> None:
    """Ask the policy about the records that a function failed at, if all goes well; one by one, where the first failure is the end."""
    if failed and not context.forgives:
        raise InputChanged from failed[0].error
    if failed:
        transaction.on_commit(partial(_ask_policy, context, batch, failed))


def _ask_policy(context: KernelContext, batch: Batch, failed: list[FailedCall]) -> None:
    keys, values, times = batch.keys.items, batch.values.items, batch.timestamps
    for at, error in failed:
        context.origin = batch.origin(at)
        headers = () if batch.headers is None else batch.headers[at]
        context.handle_error(keys[at], values[at], int(times[at]), headers, error)


def failure_handler(context: KernelContext) -> Callable[[Batch, list[tuple[int, Exception]]], None] | None:
    """Return what asks the policy about records that a function failed at, by their places; None where the first failure is the end."""
    if not context.forgives:
        return None
    return lambda batch, failed: _ask_policy(context, batch, [FailedCall(*one) for one in failed])
