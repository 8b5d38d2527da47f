"""Completion in a shell: commands and options, as bash asks for them."""

import os
import subprocess
import sys

import pytest

CALL = "import sys; sys.argv[0] = 'penstock'; from penstock.cli import main; main()"


@pytest.mark.parametrize(
    ("typed", "offered"), [("penstock to", {"topics", "topology"}), ("penstock run --rel", {"--reload"})]
)
def test_commands_and_options_are_completed(typed, offered):
    asks = {"_PENSTOCK_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", CALL], capture_output=True, text=True, env=os.environ | asks, check=True
    )
    assert set(done.stdout.split()) == offered
