"""Every loop in C under the address and undefined-behaviour sanitizers: sound input as the twin says, hostile bytes as an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compiler import build_sanitized, has_compiler, run_sanitized, sanitizer

from penstock.native import loader
from penstock.native.loader import LOOPS

HERE = Path(__file__).parent
SOURCES = Path(loader.__file__).parent

pytestmark = pytest.mark.skipif(not has_compiler() or sanitizer() is None, reason="needs gcc and its sanitizers")


@pytest.mark.parametrize("name", [name for name in LOOPS if name != "partition_queue"])
def test_hostile_bytes_are_an_error_and_never_a_wild_read_or_write(name, tmp_path):
    run_sanitized(HERE / "hostile.py", name, build_sanitized(SOURCES / f"_{name}.c", tmp_path))


def test_the_loop_that_reads_does_what_its_twin_does_on_messages_of_every_kind(tmp_path):
    """Records behind an error that passes are read, behind one that does not they are not; ends of a partition are told."""
    stub = build_sanitized(HERE / "stub_rdkafka.c", tmp_path, ".so")
    run_sanitized(HERE / "partition_queue_program.py", build_sanitized(SOURCES / "_partition_queue.c", tmp_path), stub)


def test_every_loop_in_c_is_among_them():
    assert {path.stem for path in SOURCES.glob("*.c")} == {f"_{name}" for name in LOOPS}
