"""The loop that reads, in C and in Python, on messages of every kind, with every read and write of it watched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.kafka_wire.protocol import batches
from penstock.log import native
from penstock.log.native import column_of, shards_of
from penstock.native import loader

HERE = Path(__file__).parent
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def build(source, to, *flags):
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run(["gcc", "-shared", "-fPIC", "-g", "-O1", *flags, include, source, "-o", to], check=True)
    return str(to)


@pytest.mark.skipif(shutil.which("gcc") is None or native.loops is None, reason="needs gcc and the loops")
def test_the_loop_in_c_reads_what_the_one_in_python_reads_and_is_clean_under_the_sanitizers(tmp_path):
    """Records behind an error that passes are read, behind one that does not they are not; ends of a partition are told."""
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    if not Path(library.stdout.strip()).is_absolute():
        pytest.skip("gcc has no sanitizer here")
    source = Path(loader.__file__).with_name("_partition_queue.c")
    loops = build(source, tmp_path / f"_partition_queue{sysconfig.get_config_var('EXT_SUFFIX')}", *SANITIZED)
    stub = build(HERE / "stub_rdkafka.c", tmp_path / "stub_rdkafka.so", *SANITIZED)
    watched = {"LD_PRELOAD": library.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    ran = subprocess.run(
        [sys.executable, HERE / "reader_loops.py", loops, stub],
        env=os.environ | watched,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-5000:]


def test_no_shards_are_refused():
    keys = pa.array([b"a", None], pa.binary())
    for shards in (0, -1):
        with pytest.raises(ValueError, match="at least one shard"):
            shards_of(keys, shards, 0)


@pytest.mark.skipif(batches.loops is None, reason="the loops in C are not built here")
def test_a_batch_is_not_replaced_by_itself():
    column = column_of(pa.array([b"x" * 40_000], pa.binary()))
    rows = batches.loops.Rows(1, None, column, column, np.array([1]), None, 1, 0)
    batch = batches.loops.Batch()
    batch.add(rows, 0, 1, 1 << 20, 1 << 20)
    before = bytes(batch)
    with pytest.raises(BufferError):
        batch.replace(batch)
    assert bytes(batch) == before
    batch.clear()  # nobody holds it
