"""The C of each loop is used where it was built, and left out where only the twins are wanted."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.compiler import has_compiler

from penstock.native.loader import LOOPS, in_c, loop

SAID = (
    "from penstock.native.loader import LOOPS, in_c; from penstock.log import partition_queue; "
    "print({in_c(name) for name in LOOPS}, partition_queue.plugged({}))"
)


@pytest.mark.skipif(
    not has_compiler() or os.environ.get("PENSTOCK_NATIVE") == "0", reason="no compiler, or only the twins are wanted"
)
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_built_where_there_is_a_compiler(name):
    assert in_c(name) is not None
    assert in_c(name).__name__ == f"penstock.native._{name}"


def test_a_variable_selects_the_twins():
    environment = os.environ | {"PENSTOCK_NATIVE": "0"}
    found = subprocess.run([sys.executable, "-c", SAID], env=environment, capture_output=True, text=True)
    assert found.stdout == "{None} {}\n", found.stderr


@pytest.mark.parametrize("name", ["record_batches", "sorted_runs"])
def test_a_twin_has_every_name_of_the_c(name):
    if in_c(name) is None:
        pytest.skip("not built")
    twin = __import__(f"penstock.native.{name}", fromlist=["*"])
    wanted = {each for each in dir(loop(name)) if not each.startswith("_")}
    assert wanted <= set(dir(twin))
