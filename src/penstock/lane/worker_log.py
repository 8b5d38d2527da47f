"""What is logged in a worker, by Penstock or by the user's functions: kept until the report of its task takes it to the driver."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from types import FrameType
from typing import Any, Protocol

from penstock.masking import scrubbed
from penstock.protocol.worker_log import MOST_LINES, MOST_TEXT, LogLine, set_levels
from penstock.record import Origin

logger = logging.getLogger("penstock.lane")


class AtWork(Protocol):
    """What a line asks of the task that runs."""

    def log_fields(self, frame: FrameType | None) -> dict[str, Any]:
        """Return what the task is at; ``frame``: where it is."""
        ...


class WorkerLog(logging.Handler):
    """Collects lines; a line that comes between two tasks goes with the next one."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[LogLine] = []
        self._left_out = 0
        self._levels: dict[str, int] = {}
        self._at: AtWork | None = None
        self._owner: int | None = None

    def install(self) -> None:
        """Take what is logged in this process, in place of standard error."""
        if self._owner != os.getpid():
            self._owner = os.getpid()
            logging.getLogger().addHandler(self)

    def begin(self, levels: dict[str, int], at: AtWork | None = None) -> None:
        """Begin a task, with the levels of the driver."""
        self._at = at
        if levels != self._levels and self._owner == os.getpid():
            set_levels(levels, self._levels)
            self._levels = levels

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        if len(self._lines) >= MOST_LINES:
            self._left_out += 1
            return
        try:
            frame = sys._getframe() if self._at is not None else None
            fields = {} if self._at is None else self._at.log_fields(frame)
            trace = None
            if record.exc_info and record.exc_info[1] is not None:
                trace = scrubbed("".join(traceback.format_exception(record.exc_info[1])))[-MOST_TEXT:]
            message = scrubbed(record.getMessage())[:MOST_TEXT]
            place = record.pathname, record.lineno
            line = LogLine(record.name, record.levelno, message, record.created, os.getpid(), place, fields, trace)
            self._lines.append(line)
        except Exception:
            self.handleError(record)

    def take(self) -> list[LogLine]:
        """Return the lines, once; the last one says how many there was no room for."""
        found, self._lines = self._lines, []
        if self._left_out:
            said, place = f"{self._left_out} more lines of this task were left out", (__file__, 0)
            found.append(LogLine(logger.name, logging.WARNING, said, found[-1].created, os.getpid(), place))
            self._left_out = 0
        return found


def record_at(origin: Origin) -> dict[str, Any]:
    """Return topic, partition and offset of the record at hand; nothing where there is none."""
    if origin.topic is None:
        return {}
    return {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset}


#: one for each process: it runs one task at a time
WORKER_LOG = WorkerLog()
