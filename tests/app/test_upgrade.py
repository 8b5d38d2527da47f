"""State and topics that the version before has written are read by this one (``tests/golden/make_upgrade_golden.py``).

The archive has them as they were when that version ended: a broker is started on its data, the application on its state. With the
records that come then, all that is in the topics and in the stores must be what one run over all records gives.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest
from tests.app.conftest import Cluster
from tests.golden.upgrade_application import (
    BEFORE,
    OUTPUT,
    SETTINGS,
    contents,
    drain,
    engine,
    rounds,
    send,
    topology,
)

from penstock.dev.broker import QUICK_START, Broker
from penstock.state.lmdb_format import boot_id
from penstock.testing import TopologyTestDriver

GOLDEN = Path(__file__).parents[1] / "golden" / "upgrade.tar.xz"


@pytest.fixture
def left(tmp_path):
    """The folder of what the version before has left, as if it had been written since this machine was started."""
    with tarfile.open(GOLDEN) as files:
        files.extractall(tmp_path, filter="data")
    for mark in (tmp_path / "state").glob("*/*/boot-id"):
        mark.write_text(boot_id() or "")
    return tmp_path


@pytest.fixture
def cluster(left):
    """The broker of the version before."""
    with Broker(data=left / "broker", java_options=[QUICK_START]) as broker:
        made = Cluster(broker.bootstrap_servers, "")
        yield made
        made.close()


@pytest.fixture
def uninterrupted():
    """The test driver, which runs all rounds, cut as the application is cut."""
    options = {"config": SETTINGS, "lanes": SETTINGS["lanes"], "partitions": 2, "auto_commit": False}
    with TopologyTestDriver(topology(), **options) as driver:
        for rows in rounds():
            for row in rows:
                driver.pipe_raw(*row)
            driver.commit()
        yield driver


def test_an_application_goes_on_with_what_the_version_before_has_written(
    left, cluster, uninterrupted, spark_session, by_key
):
    for rows, lost in zip(rounds()[BEFORE:], (False, True), strict=True):
        if lost:
            shutil.rmtree(left / "state")
        progress = []
        running = engine(cluster.servers, left / "state", spark_session, notify=progress.append)
        try:
            loop = running.start()
            # the state of the version before is taken as it is; once it is lost, its changelogs are read
            assert (progress[-1].done, progress[-1].restored > 0) == (True, lost)
            send(cluster.log, rows)
            drain(loop)
            stores = contents(running.view)
        finally:
            running.close()
    written = uninterrupted.all_output()
    for topic in OUTPUT:
        assert by_key(cluster.rows(topic)) == by_key([tuple(row)[:4] for row in written[topic]]), topic
    assert stores == contents(uninterrupted.store)
    assert all(stores.values())
