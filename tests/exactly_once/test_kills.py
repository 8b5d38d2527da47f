"""kill -9 changes nothing (promise 3): the driver, the workers, or all of it, at every step and at any time.

Where to kill is the cross product of the table: whoever dies, before and after each step. Here are six kills, five of them drawn from
it (``PENSTOCK_SEED``). The long form, ``PENSTOCK_LONG=1``, has all, more than fifty: ``-k long`` with a number runs one part of it.
"""

from __future__ import annotations

import os
import random

import pytest
from tests.exactly_once.crash import KILL_POINTS, MOMENTS
from tests.exactly_once.scenario import Scenario

LONG = pytest.mark.skipif(not os.environ.get("PENSTOCK_LONG"), reason="the long form: set PENSTOCK_LONG=1")
#: runs of the application, each ended by a kill, of one part of the long form
RUNS_OF_A_PART = 4
#: which kills the short form has
SEED = int(os.environ.get("PENSTOCK_SEED", "4263"))


def sampled(seed: int) -> list[tuple[str, ...]]:
    """Return the crashes of three runs: workers in two, then the driver or the group, each at another moment."""
    draw = random.Random(seed)
    workers, driver = draw.sample(MOMENTS, 2), draw.sample(MOMENTS, 3)
    ended = [
        f"{draw.choice(('driver', 'group'))}:{moment}:{at}:{draw.choice((0, 4))}"
        for moment, at in zip(driver, (4, 3, 2), strict=True)
    ]
    lost = [f"workers:{moment}:{at}:{draw.choice((0, 40))}" for moment, at in zip(workers, (2, 1), strict=True)]
    return [(lost[0], ended[0]), (lost[1], ended[1]), (ended[2],)]


def test_six_kills_change_nothing(kafka_broker, tmp_path):
    with Scenario(kafka_broker.bootstrap_servers, f"six-kills-{os.getpid()}", tmp_path) as scenario:
        for crashes in sampled(SEED):
            scenario.start(*crashes).wait_killed()
            scenario.check_barrier()
        last = scenario.start("workers:run lanes:1:150", lanes=3)
        last.wait_for("tried again")
        scenario.check(scenario.finish(last))
        scenario.check_leftovers(scenario.programs)


def planned() -> list[tuple[str, ...]]:
    """Return the crashes of all runs: the driver and the group at every moment, both at random times; workers in between."""
    draw = random.Random(4)
    runs: list[tuple[str, ...]] = []
    for kind in ("driver", "group"):
        for moment, lost in zip(MOMENTS, draw.sample(MOMENTS, len(MOMENTS)), strict=True):
            workers = f"workers:{lost}:{draw.randrange(3)}:{draw.choice((0, 5, 60, 150))}"
            runs.append((workers, f"{kind}:{moment}:{draw.randint(2, 5)}:{draw.choice((0, 0, 2, 8))}"))
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
                scenario.check_barrier()
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


def test_every_point_of_the_tables_cross_product_is_planned():
    crashes = [crash.split(":") for run in planned() for crash in run]
    killed = {(kind, moment) for kind, moment, *_ in crashes}
    assert [point for point in KILL_POINTS if (point.who, point.moment) not in killed] == []
    assert len(crashes) + sum(len(run) == 1 for run in planned()) >= 50


def test_the_short_form_draws_from_it_and_over_seeds_leaves_nothing_out():
    drawn = {tuple(crash.split(":")[:2]) for seed in range(200) for run in sampled(seed) for crash in run}
    assert drawn == {(point.who, point.moment) for point in KILL_POINTS}
    assert [len(run) for run in sampled(SEED)] == [2, 2, 1]
