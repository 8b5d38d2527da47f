"""kill -9 while timers fire and a scheduled source is due: each effect once (promise 3). The long form: ``PENSTOCK_LONG=1``.

The short form of the same, with aborted epochs and restarts instead of kills, is ``app/test_waking.py``.
"""

from __future__ import annotations

import os
from functools import partial

import pytest
from tests.exactly_once import waking
from tests.exactly_once.scenario import SINK_PARTITIONS, Scenario
from tests.exactly_once.workload import topic

from penstock.log.base import TopicSpec

LONG = pytest.mark.skipif(not os.environ.get("PENSTOCK_LONG"), reason="the long form: set PENSTOCK_LONG=1")


@LONG
def test_no_kill_fires_a_timer_or_a_schedule_twice_or_never(kafka_broker, tmp_path):
    name = f"waking-{os.getpid()}"
    with Scenario(kafka_broker.bootstrap_servers, name, tmp_path) as scenario:
        named = partial(topic, name)
        scenario.log.admin.ensure_topics([TopicSpec(named(sink), SINK_PARTITIONS) for sink in waking.SINKS])
        scenario.start("workers:run lanes:2:40", "driver:produce changelog:6", waking=1).wait_killed()
        scenario.start("group:commit:5:4", waking=1).wait_killed()
        scenario.lose_state()
        scenario.start("workers:begin:1", "driver:publish:4", waking=1).wait_killed()
        scenario.start("driver:produce epoch record:4", waking=1, lanes=3).wait_killed()
        last = scenario.start(waking=1)
        last.wait_for("RUNNING")
        contents = scenario.finish(last)
        scenario.check({store: rows for store, rows in contents.items() if store != "waiting"})
        fired, beats = waking.check(scenario.log, named, SINK_PARTITIONS, scenario.feeder.orders, contents["waiting"])
        print(f"{fired} timers fired of {2 * len(scenario.feeder.orders)}, the source {beats} times")
        assert fired > len(scenario.feeder.orders)
        assert beats > 4
        scenario.check_leftovers(scenario.programs)
