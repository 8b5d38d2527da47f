"""Which answer an exception is."""

from __future__ import annotations

import logging

from starlette.requests import ClientDisconnect

from penstock.admin.answers import HttpError, not_ready
from penstock.admin.inspection import position_data
from penstock.errors import (
    BadKey,
    NotAvailable,
    NotUpToBound,
    PenstockError,
    SnapshotClosed,
    StateError,
    StoreError,
    UnknownStore,
)

logger = logging.getLogger("penstock.admin")


def error_of(error: Exception) -> HttpError:
    """Return the error that a request is answered with."""
    match error:
        case HttpError():
            return error
        case UnknownStore():
            return HttpError(404, str(error), "see /v1/stores")
        case NotUpToBound():
            last = error.barrier
            more = {} if last is None else {"epoch": last.epoch, "position": position_data(last.position)}
            return HttpError(409, str(error), "wait longer (wait_ms=), or ask without a bound", **more)
        case SnapshotClosed():
            return HttpError(410, str(error), "begin again without a cursor")
        case NotAvailable() | StateError():
            return not_ready(str(error))
        case BadKey() | StoreError():
            return HttpError(400, str(error), "see /v1/stores/{store} for its kind, its serdes and its queries")
        case PenstockError():
            return HttpError(500, str(error), "see the log of the application, and /v1/errors")
        case ClientDisconnect():  # nobody reads this
            return HttpError(400, "the client has gone before its request was complete", "send it again")
    logger.error("a request has failed", exc_info=error)
    return HttpError(500, f"{type(error).__name__}: {error}", "this is an error of Penstock's: see the log")
