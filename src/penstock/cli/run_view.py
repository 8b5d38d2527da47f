"""What ``penstock run`` shows: on a terminal one quiet line, in a log a line now and then, for scripts a line of JSON a second."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from penstock.cli.bars import stderr_console
from penstock.cli.gauge import ApplicationReading, status_line
from penstock.clock import SystemClock
from penstock.errors import PenstockError, StreamsError, coordinates
from penstock.log_lines import fields_of

if TYPE_CHECKING:
    from rich.progress import Progress

    from penstock.engine.recovery import RestoreProgress

#: microseconds between two lines
LOG_EVERY_US = 10_000_000
JSON_EVERY_US = 1_000_000


class View(AbstractContextManager["View"], Protocol):
    """Is told what happens, in this order; also of what the application logs. ``restored`` comes from another thread."""

    def phase(self, text: str) -> None:
        """What is being done now, before or after epochs run."""
        ...

    def restored(self, progress: RestoreProgress, rate: int) -> None:
        """How far the restore is, and how many rows a second it reads."""
        ...

    def status(self, reading: ApplicationReading, at_us: int) -> None:
        """Where the application stands: told several times a second."""
        ...

    def logged(self, record: logging.LogRecord) -> None:
        """Something that the application logged."""
        ...

    def ended(self, reading: ApplicationReading, error: PenstockError | None, code: int, trace: bool) -> None:
        """The end, with the error if there was one and the exit code; ``trace``: show the traceback, too."""
        ...


class LineView:
    """Lines on standard error, each with its time: for logs."""

    def __init__(self) -> None:
        self._said = ""
        self._next_us = 0

    def __enter__(self) -> LineView:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stderr.flush()

    def phase(self, text: str) -> None:
        """Say it once."""
        if text != self._said:
            self._said = text
            self._line(text)

    def restored(self, progress: RestoreProgress, rate: int) -> None:
        """Say it."""
        if progress.restored or progress.left:
            self._line(restore_line(progress, rate))

    def status(self, reading: ApplicationReading, at_us: int) -> None:
        """Say it every ten seconds, and when the state has changed."""
        if reading.state != self._said or at_us >= self._next_us:
            self._said, self._next_us = reading.state, at_us + LOG_EVERY_US
            self._line(status_line(reading))

    def logged(self, record: logging.LogRecord) -> None:
        """Say it."""
        self._line(f"{record.levelname.lower()}: {record.getMessage()}")

    def ended(self, reading: ApplicationReading, error: PenstockError | None, code: int, trace: bool) -> None:
        """Describe how it ended."""
        if error is None:
            self._line(farewell(reading))
        else:
            print(failure(reading, error, trace), file=sys.stderr)

    @staticmethod
    def _line(text: str) -> None:
        print(f"{datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


class JsonView:
    """A line of JSON a second on standard output, and one for each thing that happens."""

    def __init__(self) -> None:
        self._phase = ""
        self._state = ""
        self._next_us = 0

    def __enter__(self) -> JsonView:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()

    def phase(self, text: str) -> None:
        """Tell it once."""
        if text != self._phase:
            self._phase = text
            self._show("phase", phase=text)

    def restored(self, progress: RestoreProgress, rate: int) -> None:
        """Tell it."""
        self._show("restore", restored=progress.restored, left=progress.left, done=progress.done, rate=rate)

    def status(self, reading: ApplicationReading, at_us: int) -> None:
        """Tell it every second, and when the state has changed."""
        if reading.state != self._state or at_us >= self._next_us:
            self._state, self._next_us = reading.state, at_us + JSON_EVERY_US
            self._show("status", **reading.data())

    def logged(self, record: logging.LogRecord) -> None:
        """Tell it."""
        self._show("log", level=record.levelname.lower(), message=record.getMessage(), **fields_of(record))

    def ended(self, reading: ApplicationReading, error: PenstockError | None, code: int, trace: bool) -> None:
        """Tell how it ended."""
        self._show("end", **reading.data(), exit_code=code, error=None if error is None else _error_data(error, trace))

    @staticmethod
    def _show(event: str, **facts: Any) -> None:
        print(json.dumps({"event": event, "time": SystemClock().now_ms(), **facts}, default=str), flush=True)


class TerminalView:
    """One line at the bottom of the terminal, which changes; what is printed or logged moves up above it."""

    def __init__(self) -> None:
        from rich.live import Live

        self._console = stderr_console()
        self._live = Live(console=self._console, refresh_per_second=8, transient=True)
        self._bar: Progress | None = None
        self._phase = ""

    def __enter__(self) -> TerminalView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def phase(self, text: str) -> None:
        """Show a spinner, unless a bar says more."""
        from rich.spinner import Spinner

        if text != self._phase:
            self._phase, self._bar = text, None
            self._live.update(Spinner("dots", text=f" {text}"))

    def restored(self, progress: RestoreProgress, rate: int) -> None:
        """Show a bar of the rows that were read and those that are left."""
        from rich.progress import BarColumn, Progress, TextColumn

        if self._bar is None:
            columns = (TextColumn("Restoring state"), BarColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=self._console, auto_refresh=False)
            self._bar.add_task("")
            self._live.update(self._bar)
        self._bar.update(
            self._bar.task_ids[0],
            total=progress.restored + progress.left,
            completed=progress.restored,
            description=f"{progress.restored:,} rows, {rate:,}/s, {progress.left:,} offsets left",
        )

    def status(self, reading: ApplicationReading, at_us: int) -> None:
        """Show it."""
        from rich.text import Text

        style = "yellow" if reading.retries or reading.refused else ""
        self._live.update(Text(status_line(reading), style=style, no_wrap=True, overflow="ellipsis"))

    def logged(self, record: logging.LogRecord) -> None:
        """Print it above the line."""
        self._console.print(f"{record.levelname.lower()}: {record.getMessage()}", markup=False)

    def ended(self, reading: ApplicationReading, error: PenstockError | None, code: int, trace: bool) -> None:
        """Take the line away and say how it ended."""
        self._live.stop()
        if error is None:
            self._console.print(farewell(reading), markup=False)
        else:
            self._console.print(failure(reading, error, trace), markup=False, soft_wrap=True)


def restore_line(progress: RestoreProgress, rate: int) -> str:
    """Describe how far a restore is."""
    return f"restored {progress.restored:,} rows ({rate:,}/s), {progress.left:,} offsets left"


def farewell(reading: ApplicationReading) -> str:
    """Explain what was done until a stop that was asked for.

    >>> farewell(ApplicationReading("shop", "NOT_RUNNING", epoch=9, epochs=2, records_in=1000, records_out=20))
    'shop has stopped at the barrier of epoch 9: 1,000 records in, 20 out, in 2 epochs of this run.'
    """
    return (
        f"{reading.application_id} has stopped at the barrier of epoch {reading.epoch:,}: {reading.records_in:,} records in, "
        f"{reading.records_out:,} out, in {reading.epochs:,} epochs of this run."
    )


def failure(reading: ApplicationReading, error: PenstockError, trace: bool) -> str:
    """Explain why an application ended: the error as it is, and how to see more."""
    said = f"{reading.application_id} has failed"
    lines = [f"penstock: {error}"] if str(error).startswith(said) else [f"penstock: {said}.", str(error)]
    if trace:
        lines.append(remote_trace(error))
    elif hasattr(error, "remote_traceback"):
        lines.append("(--traceback shows the way through the lane)")
    return "\n".join(lines)


def remote_trace(error: PenstockError) -> str:
    """Return the traceback of an error: that of the lane where it happened, if it did in one."""
    found: str = getattr(error, "remote_traceback", "") or "".join(traceback.format_exception(error))
    return found.rstrip()


def _error_data(error: PenstockError, trace: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": type(error).__name__, "message": str(error)}
    if isinstance(error, StreamsError):
        record = None if error.origin is None else coordinates(error.origin)
        data |= {"node": error.node, "record": record, "function": error.function}
    return data | ({"traceback": remote_trace(error)} if trace else {})
