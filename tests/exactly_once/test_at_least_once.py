"""At least once: after a crash nothing is lost. What was written without its offsets comes again."""

from __future__ import annotations

import os

import pytest
from tests.exactly_once.model import expected
from tests.exactly_once.scenario import Epochs, Scenario
from tests.exactly_once.test_kills import LONG

from penstock.errors import PenstockError

PLAIN = "at_least_once"


class Crash(Exception):
    """What ends the application between its rows and their offsets."""


def test_what_was_written_without_its_offsets_comes_again_and_nothing_is_lost(kafka_broker, spark_session, tmp_path):
    with Scenario(kafka_broker.bootstrap_servers, f"at-least-once-{os.getpid()}", tmp_path) as scenario:
        epochs = Epochs()
        first = scenario.app(spark_session, epochs, processing_guarantee=PLAIN)

        @first.on_step
        def crash(step: str, epoch: int) -> None:
            if step == "commit" and epochs.count == 3:
                first._engine._producer.flush()
                raise Crash("planted")

        first.start()
        with pytest.raises(PenstockError, match="planted"):
            first.wait()
        second = scenario.app(spark_session, processing_guarantee=PLAIN).start().wait_until_running()
        scenario.finish_app(second)
        orders = scenario.feeder.orders
        scenario.committed.check_nothing_lost(orders)
        written = scenario.committed.sinks()["joined"]
        wanted = expected(orders)["joined"]
        assert sum(map(len, written.values())) > sum(map(len, wanted.values()))


@LONG
def test_nothing_is_lost_by_a_kill(kafka_broker, tmp_path):
    with Scenario(kafka_broker.bootstrap_servers, f"plain-kill-{os.getpid()}", tmp_path) as scenario:
        scenario.start("driver:commit:3:5", guarantee=PLAIN).wait_killed()
        scenario.start("workers:run lanes:1:60", "group:commit:3", guarantee=PLAIN).wait_killed()
        scenario.finish(scenario.start(guarantee=PLAIN))
        scenario.committed.check_nothing_lost(scenario.feeder.orders)
        scenario.check_leftovers(scenario.programs)
