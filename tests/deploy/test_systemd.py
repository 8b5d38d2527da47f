"""The systemd unit: systemd itself has nothing against it, and it stops an application as the tests of stopping do."""

import shutil
import signal
import subprocess

import manifests
import pytest

from penstock.cli.exits import DONE, FAILED, FENCED, WRONG_USE


def verified(text, folder):
    file = folder / "penstock@word-count.service"
    file.write_text(text)
    return subprocess.run(["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze, of Debian's systemd")
def test_systemd_has_nothing_against_the_unit_and_much_against_a_wrong_one(tmp_path):
    text = (manifests.DEPLOY / "systemd" / "penstock@.service").read_text()
    there = text.replace("/opt/penstock/%i/.venv/bin/penstock", shutil.which("true"))
    done = verified(there, tmp_path)
    assert (done.returncode, "penstock" in done.stderr) == (0, False), done.stderr
    assert "KillModus" in verified(there.replace("KillMode=", "KillModus="), tmp_path).stderr


def test_it_asks_the_driver_alone_to_end_which_ends_its_jvm_and_workers():
    service = manifests.unit()["Service"]
    # tests/app/test_stopping.py: a signal to the driver alone, exit code 0 at a barrier, no process is left
    assert (service["KillMode"], signal.Signals[service["KillSignal"]]) == ("mixed", signal.SIGTERM)
    assert int(service["TimeoutStopSec"]) >= 60


def test_it_is_started_again_after_a_failure_that_a_start_can_help():
    service = manifests.unit()["Service"]
    assert service["Restart"] == "on-failure"  # not after 0: it was asked to end
    prevented = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert prevented == {WRONG_USE, FENCED}
    assert not prevented & {DONE, FAILED}


def test_its_state_is_where_systemd_makes_it():
    service = manifests.unit()["Service"]
    assert f"PENSTOCK_STATE_DIR=/var/lib/{service['StateDirectory']}" in service["Environment"].split()
