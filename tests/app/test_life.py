"""An App from its first setting to its end: states, hooks, pause, close; what it is told and what it refuses."""

import gc
import threading
from dataclasses import replace

import pytest

from penstock import App, ConfigError, PenstockError, Serdes, State, StateError, Stores, StreamsBuilder
from penstock.app import Hook
from penstock.engine.executor.spark import SparkExecutor

START = 1_600_000_020_000
TEXT = {"key": Serdes.string, "value": Serdes.string}


@pytest.fixture
def topics(cluster):
    return cluster.topic("lines"), cluster.topic("out")


@pytest.fixture
def builder(topics):
    made = StreamsBuilder()
    counted = made.stream(topics[0], **TEXT).group_by_key().count(store=Stores.key_value("counts", cached=False))
    counted.to_stream().to(topics[1], value=Serdes.int64)
    return made


class Steps:
    """Lets a test wait for a step of the loop, and hold it there."""

    def __init__(self, app):
        self.seen = []
        self._told = threading.Condition()
        self.held = threading.Event()
        self.held.set()
        app.on_step(self)

    def __call__(self, step, epoch):
        with self._told:
            self.seen.append((step, epoch))
            self._told.notify_all()
        if step == "produce sinks":
            assert self.held.wait(60)

    def wait(self, step, epoch):
        with self._told:
            assert self._told.wait_for(lambda: (step, epoch) in self.seen, 60), self.seen


def test_a_job_of_the_users_has_its_turn_though_resident_tasks_wait(start, cluster, builder, topics, spark_session):
    driven = start(builder)
    cluster.send(topics[0], *((f"k{n}", "1", START) for n in range(20)))
    driven.drain()
    tasks = 2 * spark_session.sparkContext.defaultParallelism
    assert spark_session.sparkContext.parallelize(range(tasks), tasks).count() == tasks
    cluster.send(topics[0], ("k1", "1", START))
    driven.drain()
    assert dict(driven.view("counts").all())["k1"] == 2


def test_states_and_hooks_come_in_order_and_the_state_is_closed_at_a_barrier(start, cluster, builder, topics):
    app = start.app(builder)
    told = []
    for hook in Hook:
        app.hooks[hook].append(lambda app, hook=hook: told.append(f"{hook} in {app.state}"))
    app.on_state_change(lambda new, old: told.append(f"{old} to {new}"))
    steps = Steps(app)
    assert app.state is State.CREATED
    with pytest.raises(StateError, match="CREATED: its stores can be read while it is RUNNING"):
        app.store("counts")
    created = {"state": "CREATED", "application_id": app.application_id, "paused": False, "restarts": 0}
    assert app.metrics() == created
    cluster.send(topics[0], ("a", "1", START))
    app.start().wait_until_running(60_000)
    assert app.state is State.RUNNING
    steps.wait("published", 1)
    assert dict(app.store("counts").all()) == {"a": 1}
    assert app.close()
    assert app.state is State.NOT_RUNNING
    assert app.error is None
    assert told == [
        "PRE_START in CREATED",
        "CREATED to REBALANCING",
        "REBALANCING to RUNNING",
        "POST_START in RUNNING",
        "RUNNING to PENDING_SHUTDOWN",
        "PRE_STOP in PENDING_SHUTDOWN",
        "POST_STOP in PENDING_SHUTDOWN",
        "PENDING_SHUTDOWN to NOT_RUNNING",
    ]
    with pytest.raises(StateError, match="NOT_RUNNING"):
        app.store("counts")
    with pytest.raises(StateError, match="started once, make a new one"):
        app.start()


def test_an_epoch_in_flight_is_committed_before_the_end(start, cluster, builder, topics):
    app = start.app(builder)
    steps = Steps(app)
    steps.held.clear()
    cluster.send(topics[0], ("a", "1", START), ("a", "2", START))
    app.start()
    steps.wait("produce sinks", 1)
    closing = threading.Thread(target=app.close)
    closing.start()
    steps.held.set()
    closing.join(60)
    assert app.state is State.NOT_RUNNING
    assert cluster.numbers(topics[1]) == [("a", 1), ("a", 2)]
    assert cluster.log.admin.committed(app.application_id) == {(topics[0], 0): 2}
    assert steps.seen[-1] == ("published", 1)


def test_close_says_whether_it_ended_in_time(start, cluster, builder, topics):
    app = start.app(builder)
    steps = Steps(app)
    steps.held.clear()
    cluster.send(topics[0], ("a", "1", START))
    app.start()
    steps.wait("produce sinks", 1)
    assert not app.close(timeout=50)
    steps.held.set()
    assert app.close()


def test_closed_before_it_was_started_it_cannot_be_started(start, builder):
    app = start.app(builder)
    called = []
    app.hooks[Hook.PRE_START].append(called.append)
    assert app.close()
    assert app.state is State.NOT_RUNNING
    with pytest.raises(StateError, match="NOT_RUNNING"):
        app.start()
    assert called == []


def test_it_is_started_once(start, builder):
    app = start.app(builder).start()
    with pytest.raises(StateError, match="an App is started once"):
        app.start()
    app.wait_until_running(60_000)
    with pytest.raises(StateError, match="close it first"):
        app.reset()


@pytest.mark.usefixtures("nothing_set_aside")
def test_a_context_manager_runs_it_and_stops_it(start, cluster, builder, topics):
    app = start.app(builder)
    steps = Steps(app)
    with app as running:
        assert running is app
        assert app.state is State.RUNNING
        cluster.send(topics[0], ("a", "1", START))
        steps.wait("published", 1)
        assert gc.get_freeze_count() > 0, "what was there is not looked at by the garbage collector"
    assert gc.get_freeze_count() == 0
    assert app.state is State.NOT_RUNNING
    assert cluster.numbers(topics[1]) == [("a", 1)]


def test_paused_it_processes_nothing_until_it_is_resumed(start, cluster, builder, topics):
    app = start.app(builder)
    steps = Steps(app)
    app.pause()
    app.start().wait_until_running(60_000)
    cluster.send(topics[0], ("a", "1", START))
    assert app.paused
    assert app.metrics()["paused"]
    assert app.state is State.RUNNING
    app._loop.wake()
    assert steps.seen == []
    app.resume()
    steps.wait("published", 1)
    app.pause()
    cluster.send(topics[0], ("a", "2", START))
    assert ("run lanes", 2) not in steps.seen
    app.resume()
    steps.wait("published", 2)
    assert not app.paused
    assert app.metrics()["lag"] == 0


def test_what_is_sent_after_a_pause_waits_though_the_loop_was_looking_for_input(
    start, cluster, builder, topics, monkeypatch
):
    app = start.app(builder)
    steps = Steps(app)
    app.pause()
    app.start().wait_until_running(60_000)
    loop, looked, rested = app._loop, [], threading.Event()
    look, rest = loop._input.choose, loop._pause

    def choose():
        if not looked:
            app.pause()
            cluster.send(topics[0], ("a", "1", START))
        looked.append(look())
        return looked[-1]

    def pause(seconds):
        if looked:
            rested.set()
        rest(seconds)

    monkeypatch.setattr(loop._input, "choose", choose)
    monkeypatch.setattr(loop, "_pause", pause)
    app.resume()
    assert rested.wait(60)
    assert [(r.start, r.end) for r in looked[0]] == [(0, 1)]
    assert steps.seen == []
    app.resume()
    steps.wait("published", 1)


def test_metrics_say_what_was_done(start, cluster, builder, topics):
    app = start.app(builder)
    steps = Steps(app)
    cluster.send(topics[0], ("a", "1", START), ("b", "1", START), (None, "1", START))
    with app:
        steps.wait("published", 1)
        found = app.metrics()
    assert (found["epoch"], found["epochs"], found["records_in"], found["lag"]) == (1, 1, 3, 0)
    assert found["records_out"] == {topics[1]: 2}
    assert found["dropped_records"] == 1
    assert list(found["dropped_by_reason"].values()) == [1]
    assert found["lags"] == {f"{topics[0]}-0": 0}
    assert {"run lanes", "commit"} <= found["last_epoch_us"].keys()


def test_a_failure_ends_it_in_error_and_is_raised_where_it_is_waited_for(start, cluster, topics):
    builder = StreamsBuilder()
    builder.stream(topics[0], **TEXT).map_values(lambda value: 1 / 0).to(topics[1])
    app = start.app(builder)
    told = []
    app.on_state_change(lambda new, old: told.append(str(new)))
    stopped = []
    app.hooks[Hook.POST_STOP].append(lambda app: stopped.append(app.error))
    cluster.send(topics[0], ("a", "1", START))
    app.start()
    with pytest.raises(PenstockError, match="ZeroDivisionError"):
        app.wait()
    assert told == ["REBALANCING", "RUNNING", "PENDING_ERROR", "ERROR"]
    assert app.state is State.ERROR
    assert stopped == [app.error]
    with pytest.raises(PenstockError, match="ZeroDivisionError"):
        app.wait_until_running(1000)
    assert app.close()
    assert app.state is State.ERROR


def test_a_hook_that_fails_at_the_end_is_told_of_and_does_not_keep_it_from_ending(start, builder):
    app = start.app(builder)
    called = []

    def fail(app):
        raise OSError("the disk is full")

    app.hooks[Hook.PRE_STOP].append(fail)
    app.hooks[Hook.POST_STOP].append(called.append)
    app.start().wait_until_running(60_000)
    assert app.close()
    assert called == [app]
    assert app.state is State.NOT_RUNNING
    with pytest.raises(PenstockError, match="the disk is full"):
        app.wait()


def test_what_goes_wrong_before_it_runs_is_raised_to_who_waits_for_it(start, cluster):
    builder = StreamsBuilder()
    builder.stream("no-such-topic").to(cluster.topic("out"))
    app = start.app(builder)
    with pytest.raises(PenstockError, match="'no-such-topic', which does not exist"):
        app.start().wait_until_running(60_000)
    assert app.close()
    assert app.state is State.ERROR


def test_an_application_needs_a_name(builder):
    with pytest.raises(ConfigError, match="needs application_id="):
        App(builder)


def test_an_unknown_setting_is_refused_with_the_nearest_name(builder):
    with pytest.raises(PenstockError, match=r"'comit_interval_ms'.*did you mean 'commit_interval_ms'"):
        App(builder, application_id="x", comit_interval_ms=5)
    with pytest.raises(ConfigError, match="must be one of exactly_once, at_least_once"):
        App(builder, application_id="x", processing_guarantee="exactly_twice")


@pytest.mark.parametrize(("name", "value"), [("producer.acks", "7 or so"), ("consumer.fetch.min.bytes", "-5")])
def test_settings_of_clients_reach_the_clients_of_the_driver(start, builder, name, value):
    """Settings that are wrong on purpose are told of by the client that they are for."""
    engine, _ = start.make(builder, kafka={name: value})
    with pytest.raises(ConfigError, match=name.partition(".")[2]):
        engine.start()


def test_settings_of_clients_reach_the_clients_of_the_tasks(start, cluster, builder, topics):
    cluster.send(topics[0], ("a", "1", START))
    driven = start(builder, inline_epoch_records=0)
    stage = replace(driven.engine.stage, kafka={"consumer.fetch.min.bytes": "-5"})
    lanes = SparkExecutor(driven.engine._session, stage, driven.engine.log, inline_epoch_records=0)
    driven.loop.attempts.context.executor = lanes
    with pytest.raises(ConfigError, match=r"fetch\.min\.bytes"):
        driven.loop.step()
    lanes.close()
