"""One contract for every key-value store: {memory, LMDB} × {cached, uncached} × {plain, timestamped, with a ttl}."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from key_value_cases import Opened, opened, origin

from penstock.errors import SerializationError, StoreError
from penstock.serde import Serdes

CASES = [
    {"cached": cached, "timestamped": timestamped, "ttl": ttl}
    for cached in (False, True)
    for timestamped in (False, True)
    for ttl in (None, 1 << 40)
]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(k for k, v in case.items() if v) or "plain")
def case(request, make_state) -> Opened:
    return opened(make_state(), **request.param)


names = st.sampled_from(["", "a", "aa", "ab", "b", "c", "\x00", "é"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), names, st.none() | st.integers(0, 9)),
        st.tuples(st.just("put_if_absent"), names, st.integers(0, 9)),
        st.tuples(st.just("delete"), names, st.none()),
        st.tuples(st.sampled_from(["flush", "seal", "apply", "reopen"]), st.none(), st.none()),
    ),
    max_size=25,
)


def by_bytes(model: dict[str, int], case: Opened) -> list[tuple[str, object]]:
    return [(key, case.wrap(value)) for key, value in sorted(model.items(), key=lambda row: row[0].encode())]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps, names, names, st.booleans())
def test_a_store_is_a_sorted_dict_wherever_the_barriers_fall(case, steps, lower, upper, listening):
    for name in case.state.names():
        case.state.drop(name)
    case = case.reopened()
    if listening:
        case.listen()
    model: dict[str, int] = {}
    sealed = []
    for verb, key, value in steps:
        store = case.store
        if verb == "put":
            store.put(key, case.wrap(value))
            model.pop(key, None)
            if value is not None:
                model[key] = value
        elif verb == "put_if_absent":
            assert store.put_if_absent(key, case.wrap(value)) == case.wrap(model.get(key))
            model.setdefault(key, value)
        elif verb == "delete":
            assert store.delete(key) == case.wrap(model.pop(key, None))
        elif verb == "flush":
            store.flush()
        elif verb == "seal":
            store.flush()
            sealed.append(store.seal())
        elif verb == "apply" and sealed:
            store.apply(sealed.pop(0))
        elif verb == "reopen":
            store.flush()
            for epoch in [*sealed, store.seal()]:
                store.apply(epoch)
            sealed.clear()
            case = case.reopened()
            if listening:
                case.listen()
        store = case.store
        rows = by_bytes(model, case)
        between = [row for row in rows if lower.encode() <= row[0].encode() <= upper.encode()]
        assert list(store.all()) == rows
        assert list(store.reverse_all()) == rows[::-1]
        assert list(store.range(lower, upper)) == between
        assert list(store.reverse_range(lower, upper)) == between[::-1]
        assert list(store.range(lower, None)) == [row for row in rows if lower.encode() <= row[0].encode()]
        assert list(store.range(None, upper)) == [row for row in rows if row[0].encode() <= upper.encode()]
        assert list(store.prefix_scan("a")) == [row for row in rows if row[0].startswith("a")]
        assert store.approximate_num_entries() == len(model)
        if key is not None:
            assert store.get(key) == case.wrap(model.get(key))


def test_compute_and_merge_work_on_what_is_there(case):
    store, wrap = case.store, case.wrap
    value_of = (lambda v: v[0]) if case.spec.timestamped else (lambda v: v)
    assert store.merge("k", wrap(1), lambda old, new: wrap(value_of(old) + value_of(new))) == wrap(1)
    assert store.merge("k", wrap(2), lambda old, new: wrap(value_of(old) + value_of(new))) == wrap(3)
    assert store.compute("k", lambda key, old: wrap(value_of(old) * 10)) == wrap(30)
    assert store.compute("k", lambda key, old: None) is None
    assert store.get("k") is None
    assert store.compute("k", lambda key, old: wrap(7) if old is None else None) == wrap(7)


def test_put_all_puts_and_deletes(case):
    case.store.put("b", case.wrap(1))
    case.store.put_all([("a", case.wrap(1)), ("b", None), ("c", case.wrap(3))])
    assert list(case.store.all()) == [("a", case.wrap(1)), ("c", case.wrap(3))]


def test_a_key_of_none_is_refused_by_name(case):
    for attempt in (
        lambda: case.store.get(None),
        lambda: case.store.put(None, case.wrap(1)),
        lambda: case.store.delete(None),
        lambda: case.store.put_if_absent(None, case.wrap(1)),
        lambda: case.store.put_all([(None, case.wrap(1))]),
        lambda: case.store.prefix_scan(None),
    ):
        with pytest.raises(StoreError, match="'s'"):
            attempt()


def test_a_value_that_the_serde_refuses_names_store_key_and_record(case):
    case.context.origin = origin(5, offset=7)
    with pytest.raises(SerializationError, match=r"(?s)store 's'.*key 'k'.*t-0@7"):
        case.store.put("k", case.wrap(object()))
    with pytest.raises(SerializationError, match="the key 5"):
        case.store.get(5)
    assert case.store.get("k") is None


def test_changing_what_was_got_does_not_change_the_store(case):
    value = {"n": [1]}
    case.store.put("k", case.wrap(value))
    value["n"].append(2)
    got = case.store.get("k")
    (got[0] if case.spec.timestamped else got)["n"].append(3)
    assert case.store.get("k") == case.wrap({"n": [1]})


def test_an_iterator_shows_the_rows_as_of_its_call(case):
    for key in "ace":
        case.store.put(key, case.wrap(key))
    case.barrier()
    case.store.put("g", case.wrap("g"))
    seen = []
    for key, _ in case.store.all():
        seen.append(key)
        case.store.put(key + "x", case.wrap("new"))
        case.store.put("e", None)
    assert seen == ["a", "c", "e", "g"]
    assert [key for key, _ in case.store.all()] == ["a", "ax", "c", "cx", "ex", "g", "gx"]


def test_an_iterator_is_a_context_manager_and_ends_when_closed(case):
    case.store.put_all([("a", case.wrap(1)), ("b", case.wrap(2))])
    with case.store.all() as rows:
        assert next(rows) == ("a", case.wrap(1))
    assert list(rows) == []


def test_a_prefix_may_have_a_serde_of_its_own(case):
    case.store.put_all([("ab", case.wrap(1)), ("b", case.wrap(2))])
    assert list(case.store.prefix_scan(b"a", Serdes.bytes)) == [("ab", case.wrap(1))]


def test_a_range_from_high_to_low_is_empty(case):
    case.store.put_all([("a", case.wrap(1)), ("b", case.wrap(2))])
    assert list(case.store.range("b", "a")) == []


def test_nothing_reaches_the_base_before_apply(case):
    case.store.put("k", case.wrap(1))
    case.store.flush()
    sealed = case.store.seal()
    assert list(case.state.map("s").range(None, None)) == []
    assert case.store.get("k") == case.wrap(1)
    case.store.apply(sealed)
    assert case.state.map("s").count() == 1
    assert case.store.get("k") == case.wrap(1)


def test_a_sealed_epoch_may_be_applied_by_another_process(case):
    case.store.put("k", case.wrap(1))
    sealed = case.store.seal()
    sealed.write_to(case.state, "s")
    sealed.write_to(case.state, "s")
    assert case.reopened().store.get("k") == case.wrap(1)


def test_a_later_epoch_hides_an_earlier_one_that_is_applied_after_it_was_sealed(case):
    case.store.put("k", case.wrap(1))
    first = case.store.seal()
    case.store.put("k", None)
    second = case.store.seal()
    case.store.apply(first)
    assert case.store.get("k") is None
    case.store.apply(second)
    assert case.store.get("k") is None
    assert case.state.map("s").count() == 0


def test_an_epoch_without_writes_is_empty(case):
    case.store.put("k", case.wrap(1))
    case.barrier()
    assert not case.barrier()
