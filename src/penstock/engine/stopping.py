"""Stopping while the cluster does not answer: the epoch that is to be the last one would never end."""

from __future__ import annotations

import logging
import threading

from penstock.engine.executor.base import Executor
from penstock.errors import BrokerError
from penstock.log.base import Log

logger = logging.getLogger("penstock.engine")

#: between two looks whether an epoch that is to be the last one still has a cluster
STOP_SECONDS = 2.0


def cancel_if_unreachable(log: Log, executor: Executor, ended: threading.Event) -> None:
    """Cancel the lanes if they wait for a cluster that does not answer, until the loop has ended.

    Nothing is lost that was not committed.
    """
    threading.Thread(target=_watch, args=(log, executor, ended), name="penstock-stop", daemon=True).start()


def _watch(log: Log, executor: Executor, ended: threading.Event) -> None:
    warned = False
    while not ended.wait(STOP_SECONDS):
        try:
            log.admin.topics()
        except BrokerError as error:
            if not error.retriable:  # it answers
                continue
            if not warned:
                logger.warning("the epoch that runs is given up: %s", error)
            warned = True
            executor.cancel()
