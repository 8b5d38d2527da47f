"""The container's run, without an engine (``container``): it becomes ready, keeps its state on the volume, and ends at a barrier.

The long form: it builds and installs the wheel, and starts a broker and Spark twice.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path

import container
import httpx
import manifests
import pytest
from tests.app.conftest import Cluster
from tests.distribution import installed

from penstock.dev.broker import QUICK_START, Broker
from penstock.dev.server import free_ports
from penstock.engine.record import read_last
from penstock.log.base import TopicSpec

pytestmark = [
    pytest.mark.skipif(not os.environ.get("PENSTOCK_LONG"), reason="the long form: set PENSTOCK_LONG=1"),
    pytest.mark.xdist_group("spark"),
]
STOP_SECONDS = 60  # docker run --stop-timeout 60, as deploy/README.md has it
APPLICATION = "word-count"


@pytest.fixture
def environment(distributions):
    """The wheel, installed where every user may read it: a folder of pytest's is its user's alone, and /tmp is the container's own."""
    if not container.can_be_made():
        pytest.skip("no namespaces: the container's run needs root, unshare and overlays; IT WAS NOT TESTED HERE")
    folder = Path(tempfile.mkdtemp(prefix="penstock-image-", dir="/var/tmp"))
    yield installed(distributions[1], folder / "environment")
    shutil.rmtree(folder)


@pytest.fixture
def cluster():
    with Broker(java_options=[QUICK_START]) as broker:
        cluster = Cluster(broker.bootstrap_servers, "")
        yield cluster
        cluster.close()


@pytest.fixture
def start(environment, cluster, tmp_path):
    """Run the image, with the volume of the run before."""
    runs = []

    def run():
        (port,) = free_ports("127.0.0.1", 1)
        address = manifests.environment()["PENSTOCK_ADMIN"].rpartition(":")[0]
        variables = {"PENSTOCK_BOOTSTRAP_SERVERS": cluster.servers, "PENSTOCK_ADMIN": f"{address}:{port}"}
        runs.append(container.Container(tmp_path, environment, tmp_path / "volume", variables))
        return runs[-1], f"http://127.0.0.1:{port}/health/ready"

    yield run
    for each in runs:
        each.close()


def await_ready(run, url):
    """Ask until it says 200: before, nobody listens, or it says 503."""
    codes = []
    for _ in range(1200):
        assert run.running, run.text()
        try:
            codes.append(httpx.get(url).status_code)
        except httpx.TransportError:
            codes.append(0)
        if codes[-1] == 200:
            return
        threading.Event().wait(0.1)
    raise AssertionError(f"{codes[-10:]}: {run.text()}")


def counted(cluster):
    """The counts of each word, in order."""
    found = {}
    for word, count in cluster.numbers("word-counts"):
        found.setdefault(word, []).append(count)
    return found


def await_counts(run, cluster, wanted):
    for _ in range(600):
        if {word: counts[-1] for word, counts in counted(cluster).items()} == wanted:
            return
        assert run.running, run.text()
        threading.Event().wait(0.1)
    raise AssertionError(f"{counted(cluster)}: {run.text()}")


def modes(folder):
    """The permissions of what is below a folder."""
    found = {"folder": set(), "file": set()}
    for path in folder.rglob("*"):
        kind = "folder" if path.is_dir() else "file"
        found[kind].add((path.stat().st_uid, oct(stat.S_IMODE(path.stat().st_mode))))
    return found


def test_the_image_runs_as_its_user_on_a_root_it_cannot_write_and_ends_at_a_barrier(start, cluster, tmp_path):
    cluster.log.admin.ensure_topics([TopicSpec("lines"), TopicSpec("word-counts")])
    uid = manifests.instruction("USER").partition(":")[0]
    wanted = {}
    for round_ in (1, 2):
        run, ready = start()
        await_ready(run, ready)
        assert run.status("Uid").split() == [uid] * 4
        assert run.status("NSpid").split()[-1] == "1"
        assert "ro" in run.mounts()["/"]
        cluster.send(
            "lines", ("k", "to be or not to be", 1_600_000_000_000), ("k", f"round{round_}", 1_600_000_000_001)
        )
        wanted |= {"to": 2 * round_, "be": 2 * round_, "or": round_, "not": round_, f"round{round_}": 1}
        await_counts(run, cluster, wanted)
        assert modes(tmp_path / "volume") == {"folder": {(int(uid), "0o700")}, "file": {(int(uid), "0o600")}}
        assert list((tmp_path / "volume" / APPLICATION).glob("shard-*/data.mdb"))
        assert run.stop(STOP_SECONDS) == 0, run.text()
        record = read_last(cluster.log, APPLICATION)
        assert cluster.log.admin.committed(APPLICATION) == record.positions == {("lines", 0): 2 * round_}
    assert all(counts == sorted(set(counts)) for counts in counted(cluster).values())
    assert run.text().count("has stopped at the barrier of epoch") == 2
    assert "restored" not in run.text()  # the state on the volume was enough
