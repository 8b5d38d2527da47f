"""``penstock run``: an application in the foreground, until it is stopped, has caught up, or fails."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.exits import DONE, INTERRUPTED, exit_code
from penstock.cli.gauge import ApplicationReading, Gauge
from penstock.cli.kafka import BootstrapOption, ClientOption, client_settings, pairs
from penstock.cli.output import JsonOption
from penstock.cli.run_view import JsonView, LineView, TerminalView, View
from penstock.clock import stopwatch_us
from penstock.errors import PenstockError
from penstock.log_lines import JSON, TEXT, handler_for, shown_by
from penstock.masking import Scrub

if TYPE_CHECKING:
    from penstock.app import App
    from penstock.engine.recovery import RestoreProgress

#: how long nothing may come before an application counts as caught up
QUIET_US = 1_000_000
#: seconds between two looks
TICK = 0.1

AddressArgument = Annotated[
    str,
    typer.Argument(metavar="MODULE:APP", help="An App, a StreamsBuilder, a Topology, or a function that returns one."),
]
ApplicationOption = Annotated[str | None, typer.Option("--application-id", help="Name of the application.")]
StateDirOption = Annotated[Path | None, typer.Option(help="Folder of the local state.", file_okay=False)]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting (`penstock config` lists them).")
]


class Guarantee(StrEnum):
    """What is promised of results."""

    exactly_once = "exactly_once"
    at_least_once = "at_least_once"


def run(
    address: AddressArgument,
    application_id: ApplicationOption = None,
    bootstrap: BootstrapOption = None,
    client: ClientOption = None,
    state_dir: StateDirOption = None,
    lanes: Annotated[int | None, typer.Option(help="Parallel lanes.", min=1)] = None,
    shards: Annotated[int | None, typer.Option(help="Units of state, fixed at the first start.", min=1)] = None,
    guarantee: Annotated[Guarantee | None, typer.Option(help="One transaction per barrier, or none.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master, as local[2] or spark://host:7077.")] = None,
    settings: SetOption = None,
    allow_topology_change: Annotated[
        bool, typer.Option("--allow-topology-change", help="Go on though the topology is another one than before.")
    ] = False,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Stop at a barrier once nothing waits any more: for jobs.")
    ] = False,
    reload: Annotated[
        bool,
        typer.Option(
            "--reload", help="For development: start again, at a barrier, when a file of the program changes."
        ),
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Lines as in a log, on a terminal too.")] = False,
    trace: Annotated[bool, typer.Option("--traceback", help="Show the traceback of a failure.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run an application until Ctrl-C or SIGTERM, which stop it at a barrier. Options win over what the App was made with.

    Exit codes: 0 stopped as asked; 1 failed; 2 wrong use; 3 another instance has taken over.
    """
    if reload:
        from penstock.cli.reload import run_again

        raise typer.Exit(run_again(address, [argument for argument in sys.argv[1:] if argument != "--reload"]))
    given = {
        "application_id": application_id, "bootstrap_servers": bootstrap, "lanes": lanes, "shards": shards, "master": master,
        "state_dir": None if state_dir is None else str(state_dir),
        "processing_guarantee": None if guarantee is None else guarantee.value,
    }  # fmt: skip
    chosen = pairs(settings or (), "--set") | {name: value for name, value in given.items() if value is not None}
    app = make_app(address, chosen, client_settings(client))
    app.allow_topology_change |= allow_topology_change
    code = conduct(app, choose_view(as_json, plain), until_caught_up=until_caught_up, trace=trace)
    raise typer.Exit(code)


def make_app(address: str, given: dict[str, Any], client: dict[str, str]) -> App:
    """Return the App at an address, or one made of the topology there, with the settings that are given."""
    from penstock.app import App
    from penstock.cli.locate import locate_program

    found = locate_program(address)
    if isinstance(found, App):
        app = found
        app.configure(**given)
    else:
        app = App(found, **given)
    app.config["kafka"] = app.config["kafka"] | client
    return app


def choose_view(as_json: bool, plain: bool) -> View:
    """Choose how to show it."""
    if as_json:
        return JsonView()
    return LineView() if plain or not sys.stderr.isatty() else TerminalView()


def conduct(app: App, view: View, *, until_caught_up: bool, trace: bool) -> int:
    """Run an App to its end, showing it; return the exit code."""
    gauge, ended = Gauge(), threading.Event()
    app.on_state_change(lambda new, _: ended.set() if new in ("NOT_RUNNING", "ERROR") else None)
    restoring = Restoring(view)
    app.on_restore(restoring.tell)
    error: PenstockError | None = None
    with view, stop_signals() as stops, logging_to(view, app):
        app.start()
        quiet, stopping = Quiet(), False
        while not ended.wait(TICK):
            reading = gauge.read(app.metrics(), stopwatch_us())
            stopping |= stops.asked() or (until_caught_up and quiet.is_now(reading, stopwatch_us()))
            if stopping:
                view.phase("stopping at the next barrier")
                app.close(timeout=0)
            elif reading.state in ("RUNNING", "PAUSED"):
                view.status(reading, stopwatch_us())
            else:
                restoring.watch(app.phase)
        try:
            app.wait()
        except PenstockError as failed:
            error = failed
        code = DONE if error is None else exit_code(error)
        view.ended(gauge.read(app.metrics(), stopwatch_us()), error, code, trace)
    return code


class Restoring:
    """Shows the start: its phases, and how fast state is restored."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._phase = ""
        self._since = stopwatch_us()

    def watch(self, phase: str) -> None:
        """See a phase begin."""
        if phase != self._phase:
            self._phase, self._since = phase, stopwatch_us()
            self._view.phase(phase)

    def tell(self, progress: RestoreProgress) -> None:
        """Show how far it is; called in the thread of the application."""
        self._view.restored(progress, progress.restored * 1_000_000 // max(1, stopwatch_us() - self._since))


class Quiet:
    """Finds out when nothing waits and nothing came for a moment."""

    def __init__(self) -> None:
        self._seen = -1
        self._since = 0

    def is_now(self, reading: ApplicationReading, at_us: int) -> bool:
        """Return whether an application that reads like this has caught up.

        >>> quiet, reading = Quiet(), ApplicationReading("shop", "RUNNING", records_in=5)
        >>> [quiet.is_now(reading, at) for at in (0, 900_000, 1_100_000)]
        [False, False, True]
        """
        if reading.state != "RUNNING" or reading.lag or reading.records_in != self._seen:
            self._seen, self._since = reading.records_in, at_us
            return False
        return at_us - self._since >= QUIET_US


class Stops:
    """How often a person or an orchestrator has asked for the end."""

    def __init__(self) -> None:
        self.count = 0

    def asked(self) -> bool:
        """Return whether to stop; whoever asks twice does not want to wait for the barrier (nothing is committed by halves)."""
        if self.count > 1:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        return self.count > 0


@contextmanager
def stop_signals() -> Iterator[Stops]:
    """Count SIGTERM and Ctrl-C in place of what they do else."""
    stops = Stops()

    def count(number: int, frame: FrameType | None) -> None:
        stops.count += 1

    before = {number: signal.signal(number, count) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stops
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def logging_to(view: View, app: App) -> AbstractContextManager[None]:
    """Show what is logged, unless the program has set up logging itself: in the view, or as JSON (``log_format``)."""
    return shown_by(_Handler(view, app) if app.config["log_format"] == TEXT else handler_for(JSON))


class _Handler(logging.Handler):
    """Hands what is logged to a view. The error that ends the application is not: it is shown at the end."""

    def __init__(self, view: View, app: App) -> None:
        super().__init__()
        self.addFilter(Scrub())
        self._view = view
        self._app = app

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record."""
        if self._app.error is None or self._app.error not in (record.args or ()):
            self._view.logged(record)
