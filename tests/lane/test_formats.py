"""What a version has written is read by it, byte for byte, and what another version has written is refused: docs/formats.md."""

import json
import sys

import msgspec
import pyarrow as pa
import pytest
from tests.golden import make_format_golden as golden

from penstock.lane.checkpoint import ANOTHER_FORMAT, CHECKPOINT, FORMAT, KEY, ShardCheckpoint, checkpoint_of
from penstock.native import sorted_runs
from penstock.protocol.chunk import opened_chunk
from penstock.protocol.envelope import check, rows_of, unpack_place
from penstock.state import pending
from penstock.state import sorted_run as runs
from penstock.state.memory import MemoryState

FILES = {name: bytes.fromhex(data) for name, data in json.loads(golden.FILE.read_text()).items()}
little_endian = pytest.mark.skipif(sys.byteorder == "big", reason="a run has the byte order of the machine")


def sealed_rows(sealed):
    return {name: (list(each.writes), each.side, each.drops) for name, each in sealed.items()}


@little_endian
def test_what_is_written_now_is_what_the_golden_file_has():
    """But for the envelope: the frame around its rows is Arrow's."""
    written = golden.written()
    for name in FILES.keys() - {"envelope"}:
        assert written[name] == FILES[name], f"{name}: another format needs another number, see docs/formats.md"


@little_endian
def test_a_pending_file_is_read(tmp_path):
    (tmp_path / "file").write_bytes(FILES["pending"])
    assert sealed_rows(pending.unpack(pending.read(tmp_path, "file"))) == sealed_rows(golden.SEALED)


@little_endian
@pytest.mark.parametrize("loops", [sorted_runs, runs.loops], ids=["python", "built"])
def test_a_sorted_run_is_read(loops):
    assert loops.unpack(FILES["sorted_run"]) == [(b"a", b"1"), (b"b", None), (b"c", b"3")]


def test_rows_of_the_envelope_are_read():
    (batch,) = opened_chunk(FILES["envelope"]).to_batches()
    assert list(rows_of(batch)) == golden.ROWS
    assert unpack_place(FILES["place"], ["orders"]) == golden.ORIGIN


def test_a_checkpoint_is_read():
    state = MemoryState()
    state.map(CHECKPOINT).write([(KEY, FILES["checkpoint"])])
    assert checkpoint_of(state) == golden.CHECKPOINT


def test_another_format_of_a_pending_file_is_refused(tmp_path):
    data = FILES["pending"]
    (tmp_path / "file").write_bytes(bytes([data[0] + 1]) + data[1:])
    with pytest.raises(pending.Undecodable, match="another format"):
        pending.read(tmp_path, "file")


@pytest.mark.parametrize("loops", [sorted_runs, runs.loops], ids=["python", "built"])
def test_another_format_of_a_sorted_run_is_refused(loops):
    with pytest.raises(ValueError, match="format"):
        loops.unpack((7).to_bytes(4, sys.byteorder) + golden.RUN[4:])


def test_an_envelope_of_another_version_is_refused():
    table = opened_chunk(FILES["envelope"])
    check(table)
    for metadata in (None, {b"penstock.envelope": b"2"}):
        with pytest.raises(TypeError, match="one version"):
            check(pa.Table.from_batches(table.replace_schema_metadata(metadata).to_batches()))


@pytest.mark.parametrize(
    "rows",
    [
        {CHECKPOINT: [(KEY, msgspec.msgpack.encode({"format": FORMAT + 1, "incarnation": "life"}))]},
        {CHECKPOINT: [(KEY, msgspec.msgpack.encode({"incarnation": "life", "version": "7.c0ffee"}))]},
        {CHECKPOINT: [(KEY, b"not msgpack")]},
        {"counts": [(b"k", b"v")]},
    ],
    ids=["newer", "older", "damaged", "none"],
)
def test_a_copy_with_a_checkpoint_of_another_version_is_of_another_life(rows):
    """So it is deleted and restored; a copy without rows is a first one."""
    state = MemoryState()
    assert checkpoint_of(state) == ShardCheckpoint()
    for name, each in rows.items():
        state.map(name).write(each)
    assert checkpoint_of(state) == ShardCheckpoint(ANOTHER_FORMAT)
