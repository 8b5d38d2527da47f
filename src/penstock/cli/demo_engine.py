"""The demo on the real thing: a Kafka broker of its own, Spark, an App; traffic in, committed results out."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Pause
from threading import Thread

from penstock.app import App
from penstock.cli.demo_progress import Progress, Watch
from penstock.cli.demo_topology import WINDOW, Event, events, topology
from penstock.cli.demo_traffic import OUTPUTS, Committed, Purchases
from penstock.cli.gauge import Gauge
from penstock.clock import SystemClock, stopwatch_us
from penstock.dev.broker import QUICK_START, Broker
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog

TICK = 0.1
TOPICS = (TopicSpec("purchases", 4), TopicSpec("products", 1), *(TopicSpec(name, 2) for name in OUTPUTS))
#: all events of a demo of so many records happened within this time: nothing is older than a window's changelog keeps it
LONGEST_DEMO_MS = 12 * 3_600_000


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """How long, how fast. Without ``records`` and ``seconds``: until somebody stops it."""

    records: int | None
    seconds: float | None
    rate: int
    seed: int
    master: str = "local[2]"
    #: whether the page is opened in a browser
    opens: bool = False


def run(plan: DemoPlan, watch: Watch) -> Progress:
    """Run the demo; call ``watch`` about ten times a second. Ctrl-C ends the traffic, a second one the demo."""
    progress = Progress(total=plan.records)
    began = SystemClock().now_ms()

    def show(phase: str | None = None) -> None:
        progress.phase = phase or progress.phase
        progress.milliseconds = SystemClock().now_ms() - began
        watch(progress)

    with ExitStack() as stack:
        show("starting Kafka")
        broker = stack.enter_context(Broker(java_options=[QUICK_START]))
        log = KafkaLog(broker.bootstrap_servers)
        stack.callback(log.close)
        log.admin.ensure_topics(TOPICS)
        purchases = Purchases(log, purchase_times(plan, began), plan.rate)
        committed = Committed(
            log,
            {"customer-spend": progress.spend, "category-revenue": progress.revenue},
            lambda: _count(progress, SystemClock().now_ms() - began),
        )
        purchases.start()
        committed.start()
        stack.callback(purchases.stop)
        with running(make_app(broker, plan.master)) as app:
            progress.page = f"http://{app.admin_address}/"
            if plan.opens:
                open_page(progress.page)
            Conductor(app, plan, progress, purchases, committed).conduct(show)
        committed.finish()
    progress.wanted = purchases.model.results
    return progress


def make_app(broker: Broker, master: str) -> App:
    """Make the application; its state goes with the broker's folder."""
    assert broker.data is not None
    return App(
        topology(),
        application_id="penstock-demo",
        bootstrap_servers=broker.bootstrap_servers,
        state_dir=str(Path(broker.data) / "state"),
        master=master,
        lanes=2,
        shards=4,
        admin="127.0.0.1:0",
    )


def open_page(address: str) -> None:
    """Open the page where there is a browser; nothing is waited for, and nothing fails where there is none."""

    def attempt() -> None:
        with suppress(Exception):
            webbrowser.open(address)

    Thread(target=attempt, name="penstock-demo-browser", daemon=True).start()


def purchase_times(plan: DemoPlan, now: int) -> Iterator[Event]:
    """Make the events: in the last minutes or hours if their number is known, else as they happen."""
    if plan.records is None:
        return events(None, plan.seed, start=now, step=1000 / plan.rate)
    step = min(300.0, LONGEST_DEMO_MS / plan.records)
    start = int(now - plan.records * step) // WINDOW * WINDOW
    return events(plan.records, plan.seed, start=start, step=step)


@contextmanager
def running(app: App) -> Iterator[App]:
    """Run an App in its thread; stop it at a barrier."""
    app.start()
    try:
        yield app
    finally:
        app.close()


def _count(progress: Progress, at: int) -> None:
    progress.written += 1
    if progress.first_result_ms is None:
        progress.first_result_ms = at


class Conductor:
    """Watches a running demo until its traffic has ended and everything is processed."""

    def __init__(
        self, app: App, plan: DemoPlan, progress: Progress, purchases: Purchases, committed: Committed
    ) -> None:
        self._app = app
        self._plan = plan
        self._progress = progress
        self._purchases = purchases
        self._committed = committed
        self._gauge = Gauge()
        self._pause = Pause()
        self._running_since: int | None = None

    def conduct(self, show: Callable[[str], None]) -> None:
        """Show it until it is over. Ctrl-C ends the traffic; what was written is processed to the end."""
        try:
            while not self._over():
                self._look()
                show(self._app.phase)
        except KeyboardInterrupt:
            show("finishing what was written")
        self._purchases.stop()
        while self._behind():
            self._look()
            show("finishing what was written" if self._running_since else self._app.phase)

    def _look(self) -> None:
        self._pause.wait(TICK)
        for thread in (self._purchases, self._committed):
            if thread.error is not None:
                raise thread.error
        if self._app.error is not None:
            self._app.wait()  # raises it
        reading = self._gauge.read(self._app.metrics(), stopwatch_us())
        self._progress.reading = reading
        self._progress.purchases = self._purchases.purchases
        if self._running_since is None and reading.state == "RUNNING":
            self._running_since = SystemClock().now_ms()

    def _over(self) -> bool:
        """Return whether all is written, or the time is up."""
        if self._plan.seconds is not None and self._running_since is not None:
            return SystemClock().now_ms() - self._running_since > self._plan.seconds * 1000
        return self._plan.records is not None and not self._purchases.is_alive()

    def _behind(self) -> bool:
        reading = self._progress.reading
        return reading is None or reading.records_in < self._purchases.written
