"""What a cached store forwards at the barrier."""

from __future__ import annotations

import pytest
from key_value_cases import opened, origin


@pytest.fixture
def case(state):
    case = opened(state, cached=True, timestamped=True)
    case.listen()
    return case


def test_flush_forwards_once_per_key_in_the_order_of_the_last_writes(case):
    for key, value, timestamp in [("a", 1, 1), ("b", 1, 2), ("c", 1, 3), ("a", 2, 4)]:
        case.store.write(key, value, timestamp, (("h", key.encode()),))
    case.store.flush()
    assert case.take() == [
        ("b", 1, None, 2, (("h", b"b"),)),
        ("c", 1, None, 3, (("h", b"c"),)),
        ("a", 2, None, 4, (("h", b"a"),)),
    ]


def test_old_is_the_value_before_the_epoch(case):
    case.store.write("a", 1, 1)
    case.barrier()
    case.take()
    case.store.write("a", 2, 2)
    case.store.write("a", 3, 3)
    case.barrier()
    assert case.take() == [("a", 3, 1, 3, ())]


def test_old_may_come_from_an_epoch_that_is_not_applied_yet(case):
    case.store.write("a", 1, 1)
    case.store.flush()
    case.store.seal()
    case.store.write("a", 2, 2)
    case.store.flush()
    assert case.take() == [("a", 1, None, 1, ()), ("a", 2, 1, 2, ())]


def test_a_second_flush_forwards_only_what_was_written_since(case):
    case.store.write("a", 1, 1)
    case.store.write("b", 1, 1)
    case.store.flush()
    case.take()
    case.store.flush()
    assert case.take() == []
    case.store.write("a", 2, 2)
    case.store.flush()
    assert case.take() == [("a", 2, 1, 2, ())]


def test_a_delete_of_what_never_was_is_neither_forwarded_nor_written(case):
    case.store.write("a", 1, 1)
    case.store.write("a", None, 2)
    sealed = case.barrier()
    assert case.take() == []
    assert (sealed.writes, sealed.changelog) == ([], [])


def test_a_delete_of_what_was_forwarded_in_this_epoch_is_forwarded(case):
    case.store.write("a", 1, 1)
    case.store.flush()
    case.store.write("a", None, 2)
    case.store.flush()
    assert case.take() == [("a", 1, None, 1, ()), ("a", None, 1, 2, ())]
    assert case.store.seal().changelog == [(b"a", None, 2, ())]


def test_a_delete_of_a_stored_row_is_forwarded_and_logged(case):
    case.store.write("a", 1, 1)
    case.barrier()
    case.take()
    case.store.write("a", None, 2)
    assert case.barrier().changelog == [(b"a", None, 2, ())]
    assert case.take() == [("a", None, 1, 2, ())]


def test_old_values_are_sent_only_where_asked_for(state):
    case = opened(state, cached=True)
    case.listen(send_old=False)
    case.store.put("a", 1)
    case.barrier()
    case.store.put("a", None)
    case.barrier()
    assert [row[:3] for row in case.take()] == [("a", 1, None), ("a", None, None)]


def test_while_a_row_is_forwarded_the_origin_is_that_of_its_last_writer(case):
    seen = []
    case.store.on_flush(lambda key, *_: seen.append((key, case.context.origin.offset)), send_old=False)
    for offset, key in enumerate("aba"):
        case.context.origin = origin(0, offset=offset)
        case.store.write(key, offset, 0)
    case.context.origin = last = origin(0, offset=99)
    case.store.flush()
    assert seen == [("b", 1), ("a", 2)]
    assert case.context.origin is last


def test_the_origin_is_put_back_when_the_listener_fails(case):
    def fail(*_):
        raise RuntimeError("planted")

    case.store.on_flush(fail, send_old=False)
    case.store.write("a", 1, 0)
    case.context.origin = last = origin(0, offset=99)
    with pytest.raises(RuntimeError, match="planted"):
        case.store.flush()
    assert case.context.origin is last


def test_what_the_listener_writes_is_forwarded_by_the_next_flush(case):
    def listener(key, new, old, timestamp, headers):
        case.forwarded.append((key, new, old))
        if new < 3:
            case.store.write(key, new + 1, timestamp)

    case.store.on_flush(listener, send_old=True)
    case.store.write("a", 1, 0)
    for expected in ([("a", 1, None)], [("a", 2, 1)], [("a", 3, 2)], []):
        case.store.flush()
        assert case.take() == expected


def test_a_cached_store_without_a_listener_logs_every_delete(state):
    case = opened(state, cached=True)
    case.store.put("a", None)
    assert case.barrier().changelog == [(b"a", None, 0, ())]


def test_a_store_that_is_not_cached_forwards_nothing(state):
    case = opened(state, cached=False)
    case.listen()
    case.store.put("a", 1)
    case.barrier()
    assert case.take() == []
