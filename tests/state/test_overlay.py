"""A later step of an epoch reads what an earlier one wrote, above the last barrier; the barrier itself is not touched."""

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.state import pending
from penstock.state.base import Sealed
from penstock.state.memory import MemoryState
from penstock.state.overlay import OverlayState
from penstock.state.sorted_run import SortedRun, pack

keys = st.binary(min_size=1, max_size=2)
writes = st.lists(st.tuples(keys, st.none() | st.binary(max_size=2)), max_size=8)
ends = st.none() | keys


@given(writes, writes, st.booleans(), ends, ends, st.booleans())
def test_an_overlay_reads_as_if_its_writes_were_applied(base, above, dropped, lower, upper, reverse):
    state, applied = MemoryState(), MemoryState()
    for each in (state, applied):
        each.map("m").write(base)
        each.map("m/side").write(base)
    sealed = Sealed(above, [], {"m/side": above}, ["m"] if dropped else [])
    overlay = OverlayState(state, {"m": sealed})
    sealed.write_to(applied, "m")
    for name in ("m", "m/side"):
        seen, wanted = overlay.map(name), applied.map(name)
        assert list(seen.range(lower, upper, reverse)) == list(wanted.range(lower, upper, reverse))
        asked = [b"?", *(key for key, _ in [*base, *above])]
        assert [seen.get(key) for key in asked] == [wanted.get(key) for key in asked]
        assert seen.get_many(asked) == [wanted.get(key) for key in asked]
        assert seen.under(asked) == wanted.under(asked)
        assert seen.count() == wanted.count()


@given(writes, writes, ends, ends, st.booleans())
def test_a_run_above_a_map_reads_as_if_it_were_applied(base, above, lower, upper, reverse):
    rows = dict(sorted(dict(above).items()))
    run = SortedRun(pack(pa.array(list(rows), pa.binary()), pa.array(list(rows.values()), pa.binary())))
    state, applied = MemoryState(), MemoryState()
    for each in (state, applied):
        each.map("m").write(base)
    applied.map("m").write(rows.items())
    seen, wanted = OverlayState(state, {"m": Sealed(run)}).map("m"), applied.map("m")
    assert list(seen.range(lower, upper, reverse)) == list(wanted.range(lower, upper, reverse))
    asked = [b"?", *(key for key, _ in [*base, *above])]
    assert seen.get_many(asked) == [seen.get(key) for key in asked] == [wanted.get(key) for key in asked]
    assert seen.column(pa.array(asked, pa.binary())).to_pylist() == [wanted.get(key) for key in asked]
    assert seen.under(asked) == wanted.under(asked)
    assert (seen.count(), seen.get_many([])) == (wanted.count(), [])


def test_a_long_run_is_iterated_in_chunks_both_ways():
    base = MemoryState()
    base.map("m").write([(b"%05d" % n, b"old") for n in range(0, 3000, 3)])
    names = [b"%05d" % n for n in range(0, 3000, 2)]
    run = SortedRun(pack(pa.array(names, pa.binary()), pa.array([b"new"] * len(names), pa.binary())))
    seen = OverlayState(base, {"m": Sealed(run)}).map("m")
    rows = {b"%05d" % n: b"old" for n in range(0, 3000, 3)} | dict.fromkeys(names, b"new")
    assert list(seen.range(None, None)) == sorted(rows.items())
    assert list(seen.range(None, None, True)) == sorted(rows.items(), reverse=True)


@given(writes, writes)
def test_pending_writes_that_went_through_a_file_apply_as_they_are(base, above):
    one, other = MemoryState(), MemoryState()
    for state in (one, other):
        state.map("m").write(base)
    sealed = {"m": Sealed(above, [(b"k", b"v", 1, ())], {"m/side": above}, ["gone"])}
    sealed["m"].write_to(one, "m")
    pending.apply(other, pending.pack(sealed))
    for name in ("m", "m/side"):
        assert list(one.map(name).range(None, None)) == list(other.map(name).range(None, None))


def test_a_file_that_is_not_of_this_program_is_told_from_one_that_is():
    state = MemoryState()
    for data in (msgspec.msgpack.encode({"m": [[[b"k", b"v"]], {}, []]}), b"", b"\xc1"):
        with pytest.raises(pending.Undecodable):
            pending.apply(state, data)
    assert state.names() == []


def test_only_the_files_of_one_run_stay(tmp_path):
    for token in ("1.a", "1.b", "2.c"):
        pending.write(tmp_path, pending.file_name(token, 0, "7.1"), pending.pack({}))
    (tmp_path / "data.mdb").write_bytes(b"")
    pending.clear(tmp_path, keep="1.b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.mdb", "pending-1.b-0-7.1"]
