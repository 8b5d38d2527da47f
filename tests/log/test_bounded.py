"""A call that does not return is left behind."""

import threading

import pytest

from penstock.log.bounded import bounded


def test_a_call_that_returns_is_waited_for():
    done = []
    bounded(lambda: done.append(1), 30)
    assert done == [1]


def test_what_a_call_raises_is_raised():
    with pytest.raises(KeyError, match="x"):
        bounded(lambda: {}["x"], 30)


def test_a_call_that_does_not_return_is_given_up():
    never = threading.Event()
    with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
        bounded(never.wait, 0.05)
    never.set()
