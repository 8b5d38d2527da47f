"""A second instance takes over (promise 5): the first one stops with a clear error, commits nothing more, and nothing is lost."""

from __future__ import annotations

import os

import pytest
from tests.exactly_once.scenario import Epochs, Scenario
from tests.exactly_once.test_kills import LONG

from penstock.app import State
from penstock.errors import FencedError


def test_a_second_instance_fences_the_first_one(kafka_broker, spark_session, tmp_path):
    with Scenario(kafka_broker.bootstrap_servers, f"fenced-{os.getpid()}", tmp_path) as scenario:
        epochs, later = Epochs(), Epochs()
        first = scenario.app(spark_session, epochs).start()
        epochs.wait_for(3)
        second = scenario.app(spark_session, later).start()
        with pytest.raises(FencedError, match="another instance with the same application_id has taken over"):
            first.wait()
        assert first.state == State.ERROR
        later.wait_for(3)
        scenario.check(scenario.finish_app(second))


@LONG
def test_of_two_processes_with_one_state_folder_the_second_goes_on(kafka_broker, tmp_path):
    with Scenario(kafka_broker.bootstrap_servers, f"two-{os.getpid()}", tmp_path) as scenario:
        programs = [scenario.start()]
        programs[0].wait_for("RUNNING")
        for number in range(3):
            programs.append(scenario.start(lanes=1 + number))
            programs[-1].wait_for("RUNNING")
            assert programs[-2].wait() == 1
            assert programs[-2].heard("failed FencedError: .*has taken over"), programs[-2].text()
        scenario.check(scenario.finish(programs[-1]))
        scenario.check_leftovers(scenario.programs)
