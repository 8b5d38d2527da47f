"""``run``, ``status`` and ``reset``, on a real broker and Spark."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from itertools import count

import pytest
from typer.testing import CliRunner

from penstock import App, PenstockError, Serdes
from penstock.cli import run as run_command
from penstock.cli import run_view
from penstock.cli.app import app as commands
from penstock.cli.gauge import ApplicationReading
from penstock.cli.locate import locate_program
from penstock.engine.recovery import RestoreProgress
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog

pytestmark = pytest.mark.xdist_group("spark")

NUMBERS = count()
PROGRAM = """
from penstock import App, Serdes, StreamsBuilder


def checked(word):
    if word == "boom":
        raise ValueError("no booms here")
    return word


builder = StreamsBuilder()
(
    builder.stream("{name}-lines", value=Serdes.string)
    .flat_map_values(str.split)
    .map_values(checked, name="check")
    .group_by(lambda _, word: word, value=Serdes.string)
    .count(store="counts")
    .to_stream()
    .to("{name}-out", value=Serdes.int64)
)
app = App(builder, application_id="{name}", master="local[2]", lanes=2, shards=2)
"""


class PartitionStatus:
    """A program in a folder, its topic on the broker, and commands that know both."""

    def __init__(self, servers, folder):
        self.name = f"words-{os.getpid()}-{next(NUMBERS)}"
        self.file = folder / f"{self.name.replace('-', '_')}.py"
        self.file.write_text(PROGRAM.format(name=self.name))
        self.environment = {
            "PENSTOCK_BOOTSTRAP_SERVERS": servers,
            "PENSTOCK_STATE_DIR": str(folder / "state"),
        }
        self.log = KafkaLog(servers)
        self.lines = f"{self.name}-lines"
        self.log.admin.ensure_topics([TopicSpec(self.lines, 1)])

    def send(self, *lines):
        producer = self.log.producer(None)
        producer.begin()
        producer.produce([(self.lines, 0, None, line.encode(), 1_700_000_000_000, ()) for line in lines])
        producer.commit()

    def start(self, *options):
        command = [sys.executable, "-c", "from penstock.cli import main; main()", "run", *options]
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | self.environment,
        )

    def call(self, *arguments, code=0, stdin=None):
        result = CliRunner().invoke(commands, list(arguments), env=self.environment, input=stdin)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    def status(self):
        return json.loads(self.call("status", "--application-id", self.name, "--json").stdout)


@pytest.fixture
def place(kafka_broker, tmp_path):
    made = PartitionStatus(kafka_broker.bootstrap_servers, tmp_path)
    yield made
    made.log.close()
    sys.modules.pop(made.file.stem, None)


def events_until(process, wanted):
    """Read lines of JSON until one is wanted; return it."""
    for line in process.stdout:
        event = json.loads(line)
        if wanted(event):
            return event
    raise AssertionError(process.stderr.read())


@pytest.fixture
def ended():
    """Processes that are ended with the test, however it ends."""
    processes = []
    yield processes.append
    for process in processes:
        process.kill()
        process.communicate()


def test_an_application_runs_is_seen_from_outside_stops_at_a_barrier_and_is_reset(place, ended):
    process = place.start(str(place.file), "--json")
    ended(process)
    place.send("hello stream", "hello")
    done = events_until(process, lambda event: event.get("records_in") == 2)
    assert (done["event"], done["state"], done["lag"], done["records_out"]) == ("status", "RUNNING", 0, 2)
    assert done["epoch_ms"] > 0

    seen = place.status()
    assert (seen["epoch"], seen["shards"], seen["lanes"], seen["lag"]) == (done["epoch"], 2, 2, 0)
    assert [(row["topic"], row["position"], row["lag"]) for row in seen["places"]] == [(place.lines, 2, 0)]
    assert [(row["store"], row["partitions"]) for row in seen["changelogs"]] == [("counts", 2)]

    stop = threading.Event()

    def keep_sending():
        while not stop.wait(0.05):
            place.send("again")

    sender = threading.Thread(target=keep_sending)
    sender.start()
    try:
        events_until(process, lambda event: event.get("epoch", 0) > done["epoch"])
        refused = place.call("reset", "--application-id", place.name, "--yes", code=1)
        assert "runs: it committed epoch" in refused.stderr
    finally:
        stop.set()
        sender.join()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")  # and no word of Spark's
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["exit_code"], last["error"]) == ("end", 0, None)
    assert place.status()["epoch"] == last["epoch"]

    shown = place.call("status", "--application-id", place.name).stdout
    assert re.search(rf"{place.name}: epoch {last['epoch']} committed [\d.]+ s ago", shown)
    assert re.search(rf"epoch {last['epoch'] - 1}: time went to", shown)
    took = place.status()["profile"]
    assert {"lane: read", "lane: decode", "lane: operators", "lane: state", "run lanes", "commit"} <= took.keys()
    assert all(us >= 0 for us in took.values())
    assert took["run lanes"] > 0
    would = place.call("reset", str(place.file), "--dry-run").stdout
    assert f"would be deleted: topic {place.name}-epochs" in would
    place.call("reset", str(place.file), stdin="n\n", code=1)
    deleted = json.loads(place.call("reset", "--application-id", place.name, "--yes", "--json").stdout)
    assert deleted["topics"] == [f"{place.name}-counts-changelog", f"{place.name}-epochs"]
    assert (deleted["groups"], len(deleted["folders"])) == ([place.name], 1)
    assert not os.path.exists(deleted["folders"][0])
    assert "knows no application" in place.call("status", "--application-id", place.name, code=1).stderr
    assert "There is nothing of" in place.call("reset", "--application-id", place.name, "--yes").stdout
    assert {place.lines, f"{place.name}-out"} <= place.log.admin.topics().keys()


def test_an_exception_in_a_lane_is_told_in_a_few_lines(place, ended):
    place.send("all is well", "here comes boom")
    process = place.start(f"{place.file}:builder", "--application-id", place.name, "--set", "shards=2", "--lanes", "1")
    ended(process)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    line = place.file.read_text().splitlines().index("def checked(word):") + 1
    told = err[err.index("penstock: ") :].splitlines()
    assert told == [
        f"penstock: {place.name} has failed.",
        "ValueError: no booms here",
        "  node:     check",
        f"  record:   {place.lines}-0@1 (timestamp 1700000000000)",
        f"  function: checked ({place.file}:{line}), raised at line {line + 2}",
        "(--traceback shows the way through the lane)",
    ]
    assert not re.search("[Pp]y4[Jj]|Traceback|WARN", err), err
    assert (place.status()["epoch"], place.status()["lag"]) == (0, 0)  # nothing was committed, so nothing is known


def test_a_second_signal_ends_it_at_once(place, ended):
    process = place.start(str(place.file), "--json")
    ended(process)
    events_until(process, lambda event: event["event"] == "phase")
    process.send_signal(signal.SIGINT)
    events_until(process, lambda event: event.get("phase") == "stopping at the next barrier")
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130


def app_of(place, spark_session):
    made = locate_program(f"{place.file}:builder")
    return App(
        made,
        application_id=place.name,
        bootstrap_servers=place.environment["PENSTOCK_BOOTSTRAP_SERVERS"],
        state_dir=place.environment["PENSTOCK_STATE_DIR"],
        lanes=2,
        shards=2,
        spark=spark_session,
    )


def test_it_stops_when_caught_up_tells_of_a_restore_and_of_the_instance_that_took_over(place, spark_session, capsys):
    place.send("hello stream", "hello")
    first = app_of(place, spark_session)
    assert run_command.conduct(first, run_view.LineView(), until_caught_up=True, trace=False) == 0
    assert "has stopped at the barrier of epoch 1: 2 records in, 2 out" in capsys.readouterr().err

    second = app_of(place, spark_session)
    second.config["state_dir"] += "-new"
    place.send("hello")

    def take_over(step, epoch):
        if step == "begin":
            place.log.producer(place.name).init()

    second.on_step(take_over)
    assert run_command.conduct(second, run_view.LineView(), until_caught_up=True, trace=True) == 3
    told = capsys.readouterr().err
    assert "restored 2 rows" in told
    assert "another instance with the same application_id has taken over" in told
    assert told.count("has taken over") == 2  # the message, and the traceback that was asked for
    assert place.status()["epoch"] == 1


# without Spark


def test_wrong_use_has_exit_code_2(place):
    file = str(place.file)
    assert "unknown setting 'lane' (did you mean 'lanes'?)" in place.call("run", file, "--set", "lane=2", code=2).stderr
    assert "write name=value" in place.call("run", file, "--set", "lanes", code=2).stderr
    assert "App needs application_id" in place.call("run", f"{file}:builder", code=2).stderr
    assert "has no 'ap'" in place.call("run", f"{file}:ap", code=2).stderr
    assert "Give --application-id" in place.call("reset", code=2).stderr
    place.call("run", file, "--guarantee", "perhaps", code=2)
    place.call("status", code=2)


def test_options_win_over_what_the_app_was_made_with(place):
    given = {"lanes": "4", "processing_guarantee": "at_least_once"}
    made = run_command.make_app(str(place.file), given, {"security.protocol": "SSL"})
    assert (made.config["lanes"], made.config["shards"]) == (4, 2)
    assert made.config["processing_guarantee"] == "at_least_once"
    assert made.config["kafka"] == {"security.protocol": "SSL"}
    assert made is sys.modules[place.file.stem].app


def test_options_that_shape_the_topology_count_for_an_app_that_is_made(place):
    made = run_command.make_app(str(place.file), {"default_key_serde": "uuid", "default_store": "in_memory"}, {})
    assert made.topology.node(made.topology.order[0]).key is Serdes.uuid
    assert not made.topology.stores["counts"].persistent


def test_a_terminal_shows_phases_a_bar_and_a_line(monkeypatch):
    from rich.console import Console

    out = io.StringIO()
    monkeypatch.setattr(run_view, "stderr_console", lambda: Console(file=out, force_terminal=True, width=100))
    reading = ApplicationReading("shop", "RUNNING", epoch=7, in_rate=2000, lag=5, epoch_ms=180, dropped={"null_key": 3})
    with run_view.TerminalView() as view:
        view.phase("starting Spark")
        view._live.refresh()
        view.restored(RestoreProgress(500, 1500, False), 250_000)
        view._live.refresh()
        view.status(reading, 0)
        view._live.refresh()
        view.ended(reading, PenstockError("shop has failed: no reason"), 1, False)
    shown = out.getvalue()
    for text in ("starting Spark", "Restoring state", "1,500 offsets left", "in 2,000/s", "dropped 3 (null_key)"):
        assert text in shown
    assert shown.count("has failed") == 1


def test_json_names_node_record_and_function_of_a_failure(capsys):
    from penstock import ProcessingError
    from penstock.record import NO_ORIGIN

    origin = NO_ORIGIN._replace(topic="lines", partition=0, offset=5)
    error = ProcessingError("ValueError: no", node="check", origin=origin, function="f (a.py:3)")
    run_view.JsonView().ended(ApplicationReading("shop", "ERROR"), error, 1, True)
    told = json.loads(capsys.readouterr().out)["error"]
    assert (told["kind"], told["node"], told["function"]) == ("ProcessingError", "check", "f (a.py:3)")
    assert told["record"].startswith("lines-0@5")
    assert "ProcessingError" in told["traceback"]


def test_status_of_an_application_that_has_not_committed_yet(place):
    from penstock.log.topics import epochs_topic

    place.log.admin.ensure_topics([epochs_topic(place.name)])
    assert "no epoch committed yet" in place.call("status", "--application-id", place.name).stdout
