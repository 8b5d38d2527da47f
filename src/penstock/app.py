"""App: a topology as a running application. Wires the rooms, and does nothing else.

    app = App(builder, application_id="word-count")
    app.run()                       # until SIGTERM or Ctrl-C, which stop at a barrier

or, inside another program, ``start()`` … ``close()``; the loop then has a thread of its own.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from penstock import config as settings
from penstock.admin.lifecycle import AdminEndpoints, HealthCheck
from penstock.clock import SystemClock
from penstock.durations import millis
from penstock.engine.attempt import Observer
from penstock.engine.engine import Engine
from penstock.engine.executor.spark_session import make_session, stop_session
from penstock.engine.frozen_objects import frozen_objects
from penstock.engine.recovery import OnRestore, RestoreProgress
from penstock.engine.reset import clean_up
from penstock.engine.reset import reset as reset_application
from penstock.engine.reset_point import ResetPoint
from penstock.engine.states import Listener, State, StateMachine
from penstock.engine.topics import logged_stores
from penstock.engine.tracing import tracer_for
from penstock.engine.uncaught import UncaughtErrors
from penstock.errors import ConfigError, EngineError, NotAvailable, PenstockError, SparkEnded, StateError
from penstock.log_lines import about, handler_for, shown_by
from penstock.notebook import app_html
from penstock.query.barriers import Barriers, Position
from penstock.query.changes import ChangeFeeds
from penstock.query.queries import Query
from penstock.query.result import QueryResult
from penstock.query.routing import KeyMetadata
from penstock.query.service import Queries
from penstock.query.snapshot import Snapshot
from penstock.query.views import QueryView
from penstock.setting_types import AllSettings, AppSettings, ChangeableSettings
from penstock.strict import strict_options
from penstock.topology.defaults import bound_topology
from penstock.topology.functions import check_dead_letters
from penstock.topology.topology import Topology, built

if TYPE_CHECKING:
    from penstock.dsl.builder import StreamsBuilder

logger = logging.getLogger("penstock.engine")

__all__ = ["App", "Hook", "ResetPoint", "RestoreProgress", "State"]


class Hook(StrEnum):
    """When a hook is called, with the App: around the start, around the stop."""

    PRE_START = "PRE_START"
    POST_START = "POST_START"
    PRE_STOP = "PRE_STOP"
    POST_STOP = "POST_STOP"


@strict_options
class App:
    """A running application.

    ``spark``: a session of your own, which stays open; else one is started at ``master``, and ended with the application.
    All other options are settings (`docs/configuration.md`); an unknown name is an error.
    """

    def __init__(
        self,
        topology_or_builder: StreamsBuilder | Topology,
        *,
        application_id: str | None = None,
        bootstrap_servers: str | None = None,
        spark: Any = None,
        spark_settings: dict[str, str] | None = None,
        allow_topology_change: bool = False,
        **config: Unpack[AppSettings],
    ) -> None:
        given: dict[str, Any] = {**config}
        if application_id is not None:
            given["application_id"] = application_id
        if bootstrap_servers is not None:
            given["bootstrap_servers"] = bootstrap_servers
        self._program = topology_or_builder
        self._configure(settings.load(given, pyproject=Path("pyproject.toml")))
        self._given_session = spark
        self._spark_settings = spark_settings or {}
        self.allow_topology_change = allow_topology_change
        self._session: Any = None
        self._machine = StateMachine()
        self._engine: Engine | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self._ran = False
        self._paused = False
        #: every published barrier, for whoever waits or listens, in any thread
        self.barriers = Barriers()
        self._restore_listeners: list[OnRestore] = []
        self._observers: list[Observer] = []
        self.hooks: dict[str, list[Callable[[App], None]]] = {str(hook): [] for hook in Hook}
        self._admin = AdminEndpoints(self, lambda: self._engine)
        #: wall-clock time of the start, in milliseconds; None before it
        self.started_at: int | None = None
        #: how far the restore is; None before there is something to tell
        self.restore_progress: RestoreProgress | None = None
        #: wall-clock time of its end
        self.restored_at: int | None = None

    def _configure(self, config: dict[str, Any]) -> None:
        """Take a configuration, with all that is made of it: the topology as this application runs it."""
        topology = built(self._program, "App", config["optimize"])
        if not config["application_id"]:
            raise ConfigError("App needs application_id='...': it names the consumer group and all that the app keeps")
        self.config = config
        self.topology: Topology = bound_topology(topology, config["application_id"], config)
        check_dead_letters(self.topology, config)
        tracer_for(config)  # raises now, not once state is restored
        self._uncaught = UncaughtErrors(config["on_uncaught_error"])
        #: what each barrier changes in a store, for whoever subscribes
        self.changes = ChangeFeeds(logged_stores(self.topology))

    # ---- life

    def run(self) -> None:
        """Run until SIGTERM or Ctrl-C; both stop at a barrier. Raises what ended the application, if it failed."""
        previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

        def on_signal(number: int, frame: FrameType | None) -> None:
            self._request_stop()

        in_main = threading.current_thread() is threading.main_thread()
        if in_main:
            for number in previous:
                signal.signal(number, on_signal)
        try:
            self.start()
            self.wait()
        finally:
            self.close()
            if in_main:
                for number, handler in previous.items():
                    signal.signal(number, handler)

    def start(self) -> App:
        """Start in a thread of its own; return at once. ``wait_until_running`` waits for the first epoch to be possible."""
        if self.state is not State.CREATED:
            raise StateError(f"the application is {self.state}: an App is started once, make a new one")
        self._admin.start()  # first: probes are answered while Spark starts
        try:
            self._call(Hook.PRE_START)
            self._machine.to(State.REBALANCING)
        except BaseException:
            self._admin.stop()
            raise
        self.started_at = SystemClock().now_ms()
        self._thread = threading.Thread(target=self._main, name=f"penstock-{self.application_id}", daemon=True)
        self._thread.start()
        return self

    def wait_until_running(self, timeout: timedelta | int | None = None) -> App:
        """Wait until the state is restored and epochs run; raise what went wrong instead, if something did."""
        seconds = None if timeout is None else millis(timeout, "timeout", least=0) / 1000
        running = self._machine.wait_for(State.RUNNING, timeout=seconds)
        self._raise()
        if not running:
            raise StateError(f"the application is {self.state}, not RUNNING, after the time given")
        return self

    def wait(self) -> None:
        """Wait for the end; raise what ended the application, if it failed."""
        assert self._thread is not None, "start the application first"
        while self._thread.is_alive():
            self._thread.join(0.2)  # in slices: signals are handled between two
        self._raise()

    def close(self, timeout: timedelta | int = 60_000) -> bool:
        """Stop at the next barrier and let go of everything; tell whether it ended in time."""
        seconds = millis(timeout, "timeout", least=0) / 1000
        if self._thread is None:
            self._machine.try_to(State.PENDING_SHUTDOWN)
            self._machine.try_to(State.NOT_RUNNING)
            return True
        self._request_stop()
        if self._thread is not threading.current_thread():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def pause(self) -> None:
        """Process nothing after the epoch that runs, until ``resume``."""
        self._paused = True
        if (loop := self._loop) is not None:
            loop.paused = True

    def resume(self) -> None:
        """Go on after ``pause``."""
        self._paused = False
        if (loop := self._loop) is not None:
            loop.paused = False
            loop.wake()

    def configure(self, **given: Unpack[AllSettings]) -> None:
        """Give settings other values before the start, as the command line does. They win over all others."""
        if self.state is not State.CREATED:
            raise StateError(
                f"the application is {self.state}: app.change(...) changes what may be changed while it runs"
            )
        self._configure(settings.load({**self.config, **given}, environ={}))

    def change(self, **given: Unpack[ChangeableSettings]) -> None:
        """Change settings of an application that runs, those that say so; they count from the next epoch on."""
        self.config.update(settings.changed(given))

    def reset(self, *, to: ResetPoint | None = None) -> dict[str, list[str]]:
        """Forget everything: group offsets, internal topics, local state. The application must not run.

        ``to``: where its next start begins to read, `ResetPoint.earliest()`, `.latest()`, `.offset(n)`, `.time(ms)`.
        """
        self._check_stopped()
        return reset_application(self.topology, self.config, to=to)

    def clean_up(self) -> bool:
        """Delete the local state of this machine, and nothing else; return whether there was any. It must not run.

        The next start restores it from the changelogs. As Kafka's ``cleanUp``.
        """
        self._check_stopped()
        return clean_up(self.config)

    def _check_stopped(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            raise StateError("the application runs: close it first")

    # ---- over HTTP (docs/http.md)

    @property
    def admin_address(self) -> str | None:
        """host:port where the application answers over HTTP; None: nowhere, or it has not started."""
        return self._admin.address

    def admin_asgi(self) -> Any:
        """Return the admin endpoints as an ASGI application, for a program that has a server: FastAPI, Starlette, any."""
        return self._admin.asgi()

    def mount(self, path: str, asgi_app: Any) -> None:
        """Serve an ASGI application of your own below ``path``, beside the admin endpoints; before ``start``."""
        self._admin.mount(path, asgi_app)

    def health_check(self, group: str = "ready", *, name: str | None = None) -> Callable[[HealthCheck], HealthCheck]:
        """Decorate a function that is asked by ``/health/ready`` (or ``live``): False, a text or an exception is not well.

        It may be a coroutine function, and has five seconds.
        """
        return self._admin.health_check(group, name)

    def health_checks(self, group: str) -> dict[str, HealthCheck]:
        """Return the checks of a group by name."""
        return dict(self._admin.checks[group])

    # ---- looking

    @property
    def application_id(self) -> str:
        """The application's name."""
        name: str = self.config["application_id"]
        return name

    @property
    def state(self) -> State:
        """What the application does at the moment."""
        return self._machine.state

    @property
    def phase(self) -> str:
        """What a start or a stop is at, in words: for whoever waits for it."""
        if self.state is State.REBALANCING:
            return "starting Spark" if self._session is None else "taking over and restoring state"
        return self.state.lower().replace("_", " ")

    @property
    def paused(self) -> bool:
        """Whether ``pause`` was called."""
        return self._paused

    @property
    def failures(self) -> dict[str, int]:
        """How often each kind of error has ended the application, also where it was started again."""
        return dict(self._uncaught.kinds)

    @property
    def error(self) -> BaseException | None:
        """What ended the application, if it failed."""
        return self._error

    def on_state_change(self, f: Listener) -> Listener:
        """Call ``f(new, old)`` at every change of the state."""
        self._machine.listen(f)
        return f

    def on_restore(self, f: OnRestore) -> OnRestore:
        """Call ``f(progress)`` while state is restored: rows read, offsets left, done."""
        self._restore_listeners.append(f)
        return f

    def on_step(self, f: Observer) -> Observer:
        """Call ``f(step, epoch)`` before every step of every epoch, in the loop's thread."""
        self._observers.append(f)
        return f

    def store(self, name: str) -> QueryView:
        """Return a read-only view of a store: each call reads the last barrier, a scan stays at the barrier it began with."""
        return self._queries.store(name)

    def query(self, store: str, query: Query, *, at_least: Position | None = None, wait_ms: int = 0) -> QueryResult:
        """Answer a query at the last barrier.

        ``at_least``: {(topic, partition): offset of a record}; the answer comes from a barrier that has these records, for which
        it waits up to ``wait_ms``, and raises `NotUpToBound` then.
        """
        return self._queries.query(store, query, at_least=at_least, wait_ms=wait_ms)

    def snapshot(
        self, *, at_least: Position | None = None, wait_ms: int = 0, timeout: timedelta | int | None = None
    ) -> Snapshot:
        """Return all stores at one barrier, until it is closed: a context manager, for any thread.

        ``timeout``: it is ended at the first barrier after so long (milliseconds or timedelta; else ``snapshot_timeout_ms``).
        """
        return self._queries.snapshot(at_least=at_least, wait_ms=wait_ms, timeout=timeout)

    def metadata_for_key(self, store: str, key: Any) -> KeyMetadata:
        """Return the shard and the lane that a key of a store is kept in."""
        return self._queries.metadata_for_key(store, key)

    @property
    def _queries(self) -> Queries:
        """The service that answers queries; raises `NotAvailable` before the state is restored, and after the end."""
        queries = None if self._engine is None else self._engine.queries
        if queries is None or self.barriers.last is None or self.state in (State.NOT_RUNNING, State.ERROR):
            begins = self.state in (State.CREATED, State.REBALANCING)
            hint = f" (now: {self.phase}); app.wait_until_running() waits for it" if begins else ""
            raise NotAvailable(f"the application is {self.state}: its stores can be read while it is RUNNING{hint}")
        return queries

    def metrics(self) -> dict[str, Any]:
        """Return counters since the start, the lag, and where the time went."""
        loop = self._loop
        found: dict[str, Any] = {"state": str(self.state), "application_id": self.application_id, "paused": self.paused}
        found["restarts"] = self._uncaught.count
        if loop is None:
            return found
        totals = loop.totals
        by_reason: dict[str, int] = {}
        for (_, reason), count in dict(totals.dropped).items():  # a copy: the loop counts on
            by_reason[reason] = by_reason.get(reason, 0) + count
        return found | {
            "epoch": loop.committed.epoch,
            "epochs": totals.epochs,
            "records_in": totals.records_in,
            "records_out": dict(totals.records_out),
            "dropped_records": sum(totals.dropped.values()),
            "dropped_by_reason": by_reason,
            "dropped_by_node": dict(totals.dropped),
            "batch_fallbacks": dict(totals.fallbacks),
            "refused": dict(totals.refused),
            "nodes": {node: work._asdict() for node, work in dict(totals.nodes).items()},
            "retries": totals.retries,
            "lag": loop.lag,
            "lags": {f"{topic}-{partition}": lag for (topic, partition), lag in loop.lags().items()},
            "spent_us": dict(totals.spent),
            "last_epoch_us": dict(totals.last),
        }

    def metric_samples(self) -> dict[str, list[dict[str, Any]]]:
        """Return the metrics of `docs/metrics.md` by name: rows of labels and a value, as ``/metrics`` shows them."""
        return self._admin.metric_samples()

    def _repr_html_(self) -> str:
        """Show the application in a notebook: where it stands, and its topology."""
        return app_html(self)

    # ---- the thread

    @property
    def _loop(self) -> Any:
        return None if self._engine is None else self._engine.loop

    def _request_stop(self) -> None:
        self._stop.set()
        if (loop := self._loop) is not None:
            loop.stop()

    def _main(self) -> None:
        about(application=self.application_id)
        with shown_by(handler_for(self.config["log_format"])):
            while self._fails():
                pass
            self._end()

    def _fails(self) -> bool:
        """Run until the end; return whether an error has ended it and it is to be started again."""
        try:
            self._go()
        except BaseException as error:
            self._uncaught.kinds[type(error).__name__] += not self._stop.is_set()
            if self._stop.is_set() and isinstance(error, EngineError):
                # Spark was asked to end, too: what is not committed is not lost
                logger.warning("%s ends at its last barrier: %s", self.application_id, error)
            elif not self._stop.is_set() and self._uncaught.restarts(error, ran=self._ran):
                self._restart(error)
                return not self._stop.is_set()
            else:
                self._error = error
                logger.error("%s has failed: %s", self.application_id, error)
        return False

    def _restart(self, error: BaseException) -> None:
        """Release the run that failed, and wait before the next one, which begins at the last barrier."""
        self._machine.try_to(State.REBALANCING)
        committed = self._loop is not None and self._loop.totals.epochs > 0
        seconds = self._uncaught.pause(committed)
        logger.error("%s has failed and starts again in %.0f s: %s", self.application_id, seconds, error)
        try:
            if self._engine is not None:
                self._engine.close()
        except Exception as other:
            logger.warning("while ending what has failed: %s", other)
        gc.collect()  # what the next run finds is set aside as long as it lasts
        if isinstance(error, SparkEnded) and self._given_session is None:
            stop_session(self._session)
            self._session = None
        self._stop.wait(seconds)

    def _go(self) -> None:
        self._session = (
            self._session
            or self._given_session
            or make_session(
                self.config["master"], f"penstock {self.application_id}", self._spark_settings, self.config["executor"]
            )
        )
        self._engine = Engine(
            self.topology,
            self.config,
            self._session,
            clock=SystemClock(),
            notify=self._notify_restore,
            allow_topology_change=self.allow_topology_change,
            barriers=self.barriers,
            changes=self.changes,
        )
        loop = self._engine.start()
        loop.observers += self._observers
        loop.paused = self._paused
        if self._stop.is_set():
            loop.stop()
        elif self._machine.try_to(State.RUNNING) and not self._ran:
            self._ran = True
            self._call(Hook.POST_START)
        with frozen_objects():
            loop.run()

    def _end(self) -> None:
        failed = self._error is not None
        self._machine.try_to(State.PENDING_ERROR if failed else State.PENDING_SHUTDOWN)
        steps = (partial(self._call, Hook.PRE_STOP), self._let_go, partial(self._call, Hook.POST_STOP))
        for step in steps:
            try:
                step()
            except Exception as error:  # the end is near either way; what failed first is told
                logger.warning("while ending: %s", error)
                self._error = self._error or error
        self._machine.try_to(State.ERROR if failed else State.NOT_RUNNING)
        self._admin.stop()

    def _let_go(self) -> None:
        if self._engine is not None:
            self._engine.close()
        if self._given_session is None and self._session is not None:
            stop_session(self._session)

    def _notify_restore(self, progress: RestoreProgress) -> None:
        self.restore_progress = progress
        self.restored_at = SystemClock().now_ms() if progress.done else None
        logger.info("restored %d rows, %d offsets left", progress.restored, progress.left)
        for listener in self._restore_listeners:
            listener(progress)

    def _call(self, hook: Hook) -> None:
        for f in self.hooks[hook]:
            f(self)

    def _raise(self) -> None:
        if self._error is None:
            return
        if isinstance(self._error, PenstockError):
            raise self._error
        raise PenstockError(
            f"{self.application_id} has failed: {type(self._error).__name__}: {self._error}"
        ) from self._error

    async def __aenter__(self) -> App:
        """Start, and wait until it runs, in a program with an event loop."""
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def __enter__(self) -> App:
        return self.start().wait_until_running()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
