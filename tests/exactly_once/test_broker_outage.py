"""A broker that ends and comes back changes nothing: the application waits, says so, and goes on where it was.

The long form, ``PENSTOCK_LONG=1``, has longer outages, at every step, also longer than a transaction may be open.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.exactly_once.crash import MOMENTS
from tests.exactly_once.scenario import PATIENCE, Epochs, Scenario
from tests.exactly_once.test_kills import LONG

from penstock.app import State
from penstock.dev.broker import Broker

#: seconds
AWAY = 20 if os.environ.get("PENSTOCK_LONG") else 8


class Outage:
    """An observer of steps that kills the broker once: at a step or a little later; and has it back after a while.

    ``after``: how often the step comes before. ``when``: not before this is set.
    """

    def __init__(
        self,
        broker: Broker,
        step: str,
        *,
        after: int = 2,
        delay: float = 0,
        away: float = AWAY,
        when: threading.Event | None = None,
    ) -> None:
        self._broker = broker
        self._step = step
        self._after = after
        self._delay = delay
        self._away = away
        self._when = when
        self._thread = threading.Thread(target=self._be_away)
        self.began = threading.Event()
        self.over = threading.Event()

    def __call__(self, step: str, epoch: int) -> None:
        """Be told of a step, in the thread of the loop."""
        if step != self._step or self._thread.ident is not None or (self._when and not self._when.is_set()):
            return
        self._after -= 1
        if self._after < 0:
            self._thread.start()
            if not self._delay:
                self.began.wait()

    def have_it_back(self) -> None:
        """Wait until the broker has ended and answers again."""
        assert self.began.wait(PATIENCE)
        self._thread.join()

    def _be_away(self) -> None:
        self.over.wait(self._delay)
        self._broker.kill()
        self.began.set()
        self.over.wait(self._away)
        self._broker.restart()


@contextmanager
def flowing(broker: Broker, folder: Path) -> Iterator[Scenario]:
    """The workload and its input, under a name of its own."""
    with Scenario(broker.bootstrap_servers, f"{folder.name.replace('_', '-')}-{os.getpid()}", folder) as scenario:
        yield scenario


def survive(broker: Broker, session: Any, folder: Path, outage: Outage, **options: Any) -> None:
    """Run the workload through an outage; everything must be as if it had not been."""
    with flowing(broker, folder) as scenario:
        epochs = Epochs()
        app = scenario.app(session, epochs, outage, **options).start()
        outage.have_it_back()
        epochs.wait_for(5)
        assert app.state == State.RUNNING
        scenario.check(scenario.finish_app(app))


def test_a_broker_that_stops_for_a_while_changes_nothing(kafka_broker, spark_session, tmp_path):
    sooner = {"producer.connections.max.idle.ms": 2000}
    survive(kafka_broker, spark_session, tmp_path, Outage(kafka_broker, "send offsets"), kafka=sooner)


@LONG
@pytest.mark.parametrize(
    ("step", "delay"),
    [
        *((step, 0) for step in MOMENTS),
        ("run lanes", 0.05),
        ("send offsets", 0.004),
        ("commit", 0.004),
        ("commit", 0.015),
    ],
)
def test_at_whatever_step_the_broker_ends_nothing_changes(step, delay, kafka_broker, spark_session, tmp_path):
    survive(kafka_broker, spark_session, tmp_path, Outage(kafka_broker, step, delay=delay))


@LONG
@pytest.mark.parametrize("step", ["run lanes", "send offsets", "commit"])
def test_an_outage_may_be_longer_than_a_transaction_may_be_open(step, kafka_broker, spark_session, tmp_path):
    with flowing(kafka_broker, tmp_path) as scenario:
        epochs, fed = Epochs(), threading.Event()
        outage = Outage(kafka_broker, step, away=100, when=fed)
        app = scenario.app(spark_session, epochs, outage).start()
        epochs.wait_for(3)
        app.pause()
        fed.wait(5)
        scenario.feeder.stop()  # its transactions would be too old, too
        fed.set()
        app.resume()
        outage.have_it_back()
        scenario.check(scenario.finish_app(app))


@LONG
@pytest.mark.parametrize("step", ["run lanes", "commit"])
def test_at_least_once_nothing_is_lost_by_an_outage(step, kafka_broker, spark_session, tmp_path):
    with flowing(kafka_broker, tmp_path) as scenario:
        outage = Outage(kafka_broker, step)
        app = scenario.app(spark_session, outage, processing_guarantee="at_least_once").start()
        outage.have_it_back()
        scenario.finish_app(app)
        scenario.committed.check_nothing_lost(scenario.feeder.orders)


@LONG
@pytest.mark.parametrize("step", ["run lanes", "send offsets", "commit", "published"])
def test_an_application_can_be_closed_while_the_broker_is_away(step, kafka_broker, spark_session, tmp_path):
    with flowing(kafka_broker, tmp_path) as scenario:
        outage = Outage(kafka_broker, step, away=600)
        app = scenario.app(spark_session, outage).start()
        try:
            assert outage.began.wait(PATIENCE)
            assert app.close(timeout=40_000), "the application does not end while the broker is away"
        finally:
            outage.over.set()
            outage.have_it_back()
        assert (app.state, app.error) == (State.NOT_RUNNING, None)
        again = scenario.app(spark_session).start().wait_until_running()
        scenario.check(scenario.finish_app(again))
