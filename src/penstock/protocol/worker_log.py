"""Log lines of the workers on their way to the driver: in the report of a task, whether it failed or not.

The driver hands them to its own loggers of the same names, so that one place says where they go. Levels travel the other way, with each
epoch: a level that is set in the driver, in the program or by ``PUT /v1/loggers/{name}``, holds in the workers from the next epoch on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

#: lines of one task that are kept, and characters of a message or a traceback
MOST_LINES, MOST_TEXT = 200, 4_000
ROOT = "root"


class LogLine(msgspec.Struct, array_like=True, frozen=True):
    """A line. ``fields``: what it is about, as in ``penstock.log_lines``; ``place``: file and line that logged it."""

    logger: str
    level: int
    message: str
    created: float
    process: int
    place: tuple[str, int]
    fields: dict[str, Any] = {}
    trace: str | None = None


def levels_set() -> dict[str, int]:
    """Return the loggers of this process that have a level of their own, and the root's."""
    known = [*logging.root.manager.loggerDict.items()]
    found = {name: logger.level for name, logger in known if isinstance(logger, logging.Logger) and logger.level}
    return {ROOT: logging.root.level, **found}


def set_levels(levels: Mapping[str, int], before: Mapping[str, int]) -> None:
    """Give loggers their levels; those that had one before and have none now get that of their parent."""
    for name in before.keys() - levels.keys():
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, level in levels.items():
        logging.getLogger(None if name == ROOT else name).setLevel(level)


def replay(lines: Iterable[LogLine], **fields: Any) -> None:
    """Hand lines of workers to the loggers of this process. ``fields``: what all of them are about."""
    for line in lines:
        logger = logging.getLogger(None if line.logger == ROOT else line.logger)
        if not logger.isEnabledFor(line.level):
            continue
        own = {"process": line.process, "created": line.created, "exc_text": line.trace}
        record = logging.LogRecord(line.logger, line.level, *line.place, line.message, (), None)
        record.__dict__.update(fields | line.fields | own)
        logger.handle(record)
