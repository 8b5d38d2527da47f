"""An upgrade while records flow: the version before runs the application and is ended, in order or at once, and this version goes on;
then the version before again, and this one. Exactly once through all of it, as through any restart.

The long form, and only where ``PENSTOCK_UPGRADE_BEFORE`` names a checkout of that version with a ``.venv`` of its own::

    git worktree add --detach /somewhere/before COMMIT
    cd /somewhere/before && python3 -m venv .venv && .venv/bin/pip install -c constraints.txt -e .
    PENSTOCK_LONG=1 PENSTOCK_UPGRADE_BEFORE=/somewhere/before .venv/bin/pytest tests/exactly_once/test_version_before.py

What is quick of it, ``tests/app/test_upgrade.py``, has files that the version before has written.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.exactly_once.program import ROOT, Program
from tests.exactly_once.scenario import Scenario

CHECKOUT = "PENSTOCK_UPGRADE_BEFORE"
#: records that each run takes, at least, before it is ended
RECORDS = 300

pytestmark = pytest.mark.skipif(
    not (os.environ.get("PENSTOCK_LONG") and os.environ.get(CHECKOUT)),
    reason=f"the long form: set PENSTOCK_LONG=1, and {CHECKOUT} to a checkout of the version before with a .venv of its own",
)


@pytest.fixture(scope="module")
def before() -> str:
    """The Python of the version before, which must run that version, and not this one."""
    checkout = Path(os.environ[CHECKOUT]).resolve()
    python = str(checkout / ".venv" / "bin" / "python")
    command = [python, "-c", "import penstock; print(penstock.__file__)"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert Path(said.strip()).is_relative_to(checkout), f"{python} runs {said}"
    assert checkout != ROOT
    return python


def ended_in_order(program: Program) -> None:
    program.end()


@pytest.mark.parametrize("end", [ended_in_order, Program.kill_all], ids=["SIGTERM", "kill -9"])
def test_this_version_goes_on_after_the_version_before_and_the_other_way_round(before, end, kafka_broker, tmp_path):
    with Scenario(kafka_broker.bootstrap_servers, f"upgrade-{os.getpid()}", tmp_path) as scenario:
        for python in (before, None, before):
            program = scenario.start(python=python)
            program.wait_for("RUNNING")
            scenario.wait_taken(program, RECORDS)
            end(program)
            scenario.check_barrier()
            if end is ended_in_order:
                assert not program.heard("restored [1-9]"), program.text()
        scenario.check(scenario.finish(scenario.start()))
        scenario.check_leftovers(scenario.programs)
