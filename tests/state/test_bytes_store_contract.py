"""One contract for both bodies of a shard's state."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

keys = st.one_of(
    st.binary(max_size=3),
    st.sampled_from(
        [b"", b"\0", b"\0\0", b"a", b"a\0", b"\xff", b"x" * 510, b"x" * 511, b"x" * 512, b"x" * 700 + b"y"]
    ),
    st.builds(lambda tail: b"x" * 509 + tail, st.binary(max_size=4)),
)
writes = st.lists(st.tuples(keys, st.none() | st.binary(max_size=3)), max_size=30)


def expected(model: dict[bytes, bytes], lower, upper, reverse) -> list[tuple[bytes, bytes]]:
    rows = [(k, v) for k, v in sorted(model.items()) if (lower is None or k >= lower) and (upper is None or k < upper)]
    return rows[::-1] if reverse else rows


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(writes, max_size=4), st.none() | keys, st.none() | keys, st.booleans())
def test_a_map_is_an_ordered_dict_of_bytes(state, batches, lower, upper, reverse):
    state.drop("m")
    rows, model = state.map("m"), {}
    for batch in batches:
        rows.write(batch)
        for key, value in batch:
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        assert list(rows.range(lower, upper, reverse)) == expected(model, lower, upper, reverse)
        assert list(rows.range(None, None)) == expected(model, None, None, False)
        assert rows.count() == len(model)
        asked = [key for key, _ in batch]
        assert [rows.get(key) for key in asked] == [model.get(key) for key in asked]
        assert rows.get_many(asked) == [model.get(key) for key in asked]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes, st.lists(keys, max_size=6))
def test_rows_under_many_prefixes_are_those_whose_keys_begin_so(state, given_rows, prefixes):
    state.drop("m")
    rows = state.map("m")
    assert rows.under(prefixes) == [[] for _ in prefixes]
    rows.write(given_rows)
    model = sorted((key, value) for key, value in dict(given_rows).items() if value is not None)
    asked = [*prefixes, *(key[:2] for key, _ in given_rows)]
    assert rows.under(asked) == [[row for row in model if row[0].startswith(prefix)] for prefix in asked]


def test_long_ranges_come_in_order_both_ways(state):
    rows = state.map("m")
    rows.write([(b"%05d" % i, b"%d" % i) for i in range(2000)])
    assert [int(v) for _, v in rows.range(b"00100", b"01900")] == list(range(100, 1900))
    assert [int(v) for _, v in rows.range(b"00100", b"01900", reverse=True)] == list(range(1899, 99, -1))


def test_a_write_while_a_range_is_iterated_is_no_error(state):
    rows = state.map("m")
    rows.write([(b"%05d" % i, b"") for i in range(1000)])
    seen = []
    for key, _ in rows.range(None, None):
        seen.append(key)
        rows.write([(key, None), (b"z" + key, b"") if len(seen) < 3 else (b"z", None)])
    assert seen[:1000] == [b"%05d" % i for i in range(1000)]


def test_many_keys_are_got_in_the_order_and_as_often_as_they_are_asked_for(state):
    rows = state.map("m")
    assert rows.get_many([b"a", b"b"]) == [None, None]
    rows.write([(b"a", b"1"), (b"b", b""), (b"", b"empty"), (b"\0z", b"zero"), (b"x" * 511, b"long")])
    assert rows.get_many([]) == []
    assert rows.get_many([b"b", b"c", b"a", b"b"]) == [b"", None, b"1", b""]
    assert rows.get_many([b"", b"x" * 511, b"x" * 510, b"\0z", b"\0", b"a"]) == [
        b"empty",
        b"long",
        None,
        b"zero",
        None,
        b"1",
    ]


def test_maps_do_not_see_each_other(state):
    state.map("a").write([(b"k", b"a")])
    state.map("a/1").write([(b"k", b"a/1")])
    assert (state.map("a").get(b"k"), state.map("a/1").get(b"k"), state.map("b").get(b"k")) == (b"a", b"a/1", None)


def test_a_dropped_map_is_empty_and_gone_from_the_names(state):
    state.map("a").write([(b"k", b"a"), (b"x" * 600, b"long")])
    state.map("b").write([(b"k", b"b")])
    state.drop("a")
    assert "a" not in state.names()
    assert list(state.map("a").range(None, None)) == []
    state.map("c").write([(b"l", b"c")])
    state.map("a").write([(b"m", b"again")])
    assert list(state.map("a").range(None, None)) == [(b"m", b"again")]
    assert list(state.map("c").range(None, None)) == [(b"l", b"c")]
    assert {"a", "b", "c"} <= set(state.names())


def test_dropping_what_does_not_exist_is_no_error(state):
    state.drop("nothing")


def test_a_batch_writes_and_drops_several_maps(state):
    state.map("old").write([(b"k", b"v")])
    with state.batch():
        state.drop("old")
        state.map("a").write([(b"k", b"1")])
        state.map("a").write([(b"k", b"2")])
        state.map("b").write([(b"k", b"3")])
    assert (state.map("a").get(b"k"), state.map("b").get(b"k"), state.map("old").get(b"k")) == (b"2", b"3", None)


def test_release_keeps_the_rows(state):
    state.map("a").write([(b"k", b"v")])
    assert state.map("a").get(b"k") == b"v"
    state.release()
    assert state.map("a").get(b"k") == b"v"
