"""What live and ready say at each moment, by the rules that each come from an incident (``admin/health.py``).

The long form, ``PENSTOCK_LONG=1``, has the broker away for 20 seconds, and restores 5,000,000 keys.
"""

import os
import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from tests.app.conftest import Cluster, Starter

from penstock import Serdes, Stores, StreamsBuilder
from penstock.engine import recovery
from penstock.query.queries import KeyQuery

START = 1_600_000_020_000
LONG = bool(os.environ.get("PENSTOCK_LONG"))
AWAY = 20 if LONG else 4
KEYS = 5_000_000 if LONG else 2_000
#: records of one transaction; how long they may take
SENT, WAIT_MS = 100_000, 1_800_000 if LONG else 120_000

#: moment → what live says all the time, what ready comes to say, and a word of what is missing
TABLE = {
    "running": ({200}, 200, ""),
    "a function hangs": ({200, 503}, 503, "the step 'run lanes'"),
    "and the broker is away": ({200, 503}, 503, "the broker does not answer"),
    "its worker was killed": ({200, 503}, 200, ""),
    "the broker is away": ({200}, 503, "the broker does not answer"),
    "the broker is back": ({200}, 200, ""),
    "restoring": ({200}, 503, "restoring"),
    "restored": ({200}, 200, ""),
}
#: what live says in the end, where it is not always 200
LIVE_IN_THE_END = {"a function hangs": 503, "and the broker is away": 200, "its worker was killed": 200}


class Probes:
    """Asks live all the time, and says by moment what it was told."""

    def __init__(self, address):
        self.client = httpx.Client(base_url=f"http://{address}", timeout=20)
        self.seen = {}

    @contextmanager
    def moment(self, name):
        """Watch live; at the end of the moment ready, and live, come to say what the table has."""
        always, ready, word = TABLE[name]
        over, codes = threading.Event(), self.seen.setdefault(name, set())

        def watch():
            with httpx.Client(base_url=self.client.base_url, timeout=20) as client:
                while not codes or not over.wait(0.1):  # once at least, however short the moment is
                    codes.add(client.get("/health/live").status_code)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
            self.until("/health/ready", ready, word)
            self.until("/health/live", LIVE_IN_THE_END.get(name, 200), "")
        finally:
            over.set()
            thread.join()
        assert codes <= always, (name, codes)
        assert codes, name

    def until(self, path, code, word):
        """Ask until the answer has this code and says so."""
        for _ in range(600):
            answer = self.client.get(path)
            if answer.status_code == code and (not word or any(word in what for what in answer.json()["missing"])):
                return answer.json()
            threading.Event().wait(0.1)
        raise AssertionError((path, code, word, answer.text))


@pytest.fixture
def place(kafka_broker, spark_session, tmp_path):
    cluster = Cluster(kafka_broker.bootstrap_servers, f"health-{os.getpid()}")
    start = Starter(spark_session, cluster, tmp_path / "state")
    yield SimpleNamespace(cluster=cluster, start=start, broker=kafka_broker, folder=tmp_path)
    start.close()
    cluster.close()


def program(lines, folder):
    hold, pid = str(folder / "hold"), str(folder / "pid")

    def hang(value):
        if value == "hang" and Path(hold).exists():
            Path(pid).write_text(str(os.getpid()))
            while Path(hold).exists():
                threading.Event().wait(0.05)
        return value

    builder = StreamsBuilder()
    stream = builder.stream(lines, key=Serdes.string, value=Serdes.string).map_values(hang)
    stream.group_by_key().count(store=Stores.key_value("counts", cached=False))
    return builder


def sent(place, topic, *rows):
    """Write records; return the position of the last one."""
    place.cluster.send(topic, *rows)
    return {(topic, 0): place.cluster.log.admin.end_offsets([(topic, 0)])[topic, 0] - 1}


def test_what_live_and_ready_say_at_each_moment(place, monkeypatch):
    lines = place.cluster.topic("lines")
    app = place.start.app(program(lines, place.folder), admin="0", stall_limit_ms=60_000)
    app.start().wait_until_running(120_000)
    probes = Probes(app.admin_address)
    with probes.moment("running"):
        for first in range(0, KEYS, SENT):
            last = sent(place, lines, *((f"k{n}", "x", START) for n in range(first, min(KEYS, first + SENT))))
        app.query("counts", KeyQuery("k1"), at_least=last, wait_ms=WAIT_MS)
    app.change(stall_limit_ms=1_000)
    (place.folder / "hold").touch()
    with probes.moment("a function hangs"):
        hanging = sent(place, lines, ("k1", "hang", START))
    with probes.moment("and the broker is away"):
        place.broker.pause()
    place.broker.resume()
    probes.until("/health/live", 503, "the step")
    with probes.moment("its worker was killed"):
        (place.folder / "hold").unlink()
        os.kill(int((place.folder / "pid").read_text()), signal.SIGKILL)
        assert app.query("counts", KeyQuery("k1"), at_least=hanging, wait_ms=WAIT_MS).value == 2
    app.change(stall_limit_ms=60_000)
    with probes.moment("the broker is away"):
        place.broker.pause()
        threading.Event().wait(AWAY)
    with probes.moment("the broker is back"):
        place.broker.resume()
        last = sent(place, lines, ("k1", "x", START))
        assert app.query("counts", KeyQuery("k1"), at_least=last, wait_ms=WAIT_MS).value == 3
    assert app.close()
    assert app.clean_up()
    restores(place, lines, monkeypatch)


def restores(place, lines, monkeypatch):
    """Held in the restore, which goes in several jobs, by store."""
    monkeypatch.setattr(recovery, "RESTORE_ROWS", KEYS // 16)
    again, held, go = place.start.app(program(lines, place.folder), admin="0"), threading.Event(), threading.Event()

    @again.on_restore
    def hold(progress):
        held.set()
        assert go.wait(60)

    again.start()
    probes = Probes(again.admin_address)
    with probes.moment("restoring"):
        assert held.wait(60)
        restore = probes.until("/health/ready", 503, "")["restore"]
        assert restore["remaining_by_store"] == {"counts": restore["remaining_offsets"]}
        assert restore["remaining_offsets"] > 0
        assert restore["restored_rows"] > 0
    with probes.moment("restored"):
        go.set()
        again.wait_until_running(WAIT_MS)
    assert probes.until("/health/ready", 200, "")["restore"]["remaining_by_store"] == {}
    assert again.query("counts", KeyQuery("k1")).value == 3
    assert again.close()
