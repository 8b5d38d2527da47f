"""kill -9 changes nothing (promise 3): the driver, the workers, or all of it, at every step and at any time.

Here are six kills. The long form, ``PENSTOCK_LONG=1``, has more than fifty: ``-k long`` with a number runs one part of it.
"""

from __future__ import annotations

import itertools
import os
import random

import pytest
from tests.exactly_once.crash import STEPS
from tests.exactly_once.scenario import Scenario

LONG = pytest.mark.skipif(not os.environ.get("PENSTOCK_LONG"), reason="the long form: set PENSTOCK_LONG=1")
#: runs of the application, each ended by a kill, of one part of the long form
RUNS_OF_A_PART = 4


def test_six_kills_change_nothing(kafka_broker, tmp_path):
    with Scenario(kafka_broker.bootstrap_servers, f"six-kills-{os.getpid()}", tmp_path) as scenario:
        scenario.start("workers:run lanes:2:40", "driver:produce changelog:4").wait_killed()
        scenario.start("workers:begin:1", "group:commit:3:4").wait_killed()
        scenario.start("driver:publish:2").wait_killed()
        last = scenario.start("workers:run lanes:1:150", lanes=3)
        last.wait_for("tried again")
        scenario.check(scenario.finish(last))
        scenario.check_leftovers(scenario.programs)


def planned() -> list[tuple[str, ...]]:
    """Return the crashes of all runs: the driver and the group at every step, both at random times; workers in between."""
    draw = random.Random(4)
    runs: list[tuple[str, ...]] = []
    for kind, step in itertools.product(("driver", "group"), STEPS):
        workers = f"workers:{draw.choice(STEPS)}:{draw.randrange(3)}:{draw.choice((0, 5, 60, 150))}"
        runs.append((workers, f"{kind}:{step}:{draw.randint(2, 5)}:{draw.choice((0, 0, 2, 8))}"))
    runs += [(f"workers:run lanes:{draw.randrange(2)}:{draw.randrange(200)}",) for _ in range(10)]
    draw.shuffle(runs)
    return runs


PARTS = [planned()[at : at + RUNS_OF_A_PART] for at in range(0, len(planned()), RUNS_OF_A_PART)]


@LONG
@pytest.mark.parametrize("part", range(len(PARTS)))
def test_long_form_no_kill_changes_anything(part, kafka_broker, tmp_path, record_property):
    draw = random.Random(part)
    name = f"long-{part}-{os.getpid()}"
    with Scenario(kafka_broker.bootstrap_servers, name, tmp_path, seed=part) as scenario:
        for crashes in PARTS[part]:
            if draw.random() < 0.3:
                scenario.lose_state()
            program = scenario.start(*crashes, lanes=draw.randint(1, 4))
            if len(crashes) == 1:  # no kill is planted for the driver: it comes at any time, from the very start on
                program.wait_or(draw.uniform(1, 25))
                draw.choice((program.kill, program.kill_all))()
            else:
                program.wait_killed()
        last = scenario.start(lanes=draw.randint(1, 4))
        scenario.check(scenario.finish(last))
        kills = sum(program.kills for program in scenario.programs)
        print(f"part {part}: {kills} kills, {len(scenario.feeder.orders)} orders")
        record_property("kills", kills)
        scenario.lose_state()
        again = scenario.start()
        again.wait_for("RUNNING")
        scenario.check(again.end())
        scenario.check_leftovers(scenario.programs)


@LONG
def test_a_driver_whose_jvm_is_killed_ends_with_a_message(kafka_broker, tmp_path):
    with Scenario(kafka_broker.bootstrap_servers, f"no-jvm-{os.getpid()}", tmp_path) as scenario:
        program = scenario.start("java:run lanes:2:50")
        assert program.wait() == 1
        assert program.heard("failed EngineError: Spark's JVM has ended"), program.text()
        scenario.check(scenario.finish(scenario.start()))
        scenario.check_leftovers(scenario.programs)


def test_every_step_and_both_kinds_are_planned():
    crashes = [crash.split(":") for run in planned() for crash in run]
    assert {(kind, step) for kind, step, *_ in crashes} >= set(itertools.product(("driver", "group"), STEPS))
    assert len(crashes) + sum(len(run) == 1 for run in planned()) >= 50
