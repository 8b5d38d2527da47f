"""What is there when an application begins to run is not looked at by the garbage collector until it ends."""

import gc
import threading
import weakref

import pytest

from penstock.engine import frozen_objects as frozen_objects_module
from penstock.engine.frozen_objects import frozen_objects

pytestmark = pytest.mark.usefixtures("nothing_set_aside")


class Node:
    """Refers to itself, so that only the collector can free it."""

    def __init__(self):
        self.itself = self


def forgotten():
    """Return a weak reference to what only the collector can free now."""
    return weakref.ref(Node())


def test_what_was_there_is_set_aside_and_what_comes_is_collected():
    gc.disable()  # until it is frozen: a collection by itself would free it
    try:
        old = forgotten()
        with frozen_objects():
            new = forgotten()
            gc.collect()
            assert old() is not None
            assert new() is None
    finally:
        gc.enable()
    gc.collect()
    assert old() is None


def test_what_comes_is_collected_by_a_thread_of_its_own(monkeypatch):
    monkeypatch.setattr(frozen_objects_module, "SECONDS", 0.01)
    threads, ended = [], threading.Event()

    def end(_):
        threads.append(threading.current_thread().name)
        ended.set()

    with frozen_objects():
        gc.collect()  # so that this thread has no reason to, for a while
        node = weakref.ref(Node(), end)
        assert ended.wait(60)
    assert node() is None
    assert threads == ["penstock-gc"]


def test_of_several_applications_the_last_one_ends_it():
    before = gc.get_freeze_count()
    with frozen_objects():
        with frozen_objects():
            pass
        assert gc.get_freeze_count() > before
    assert gc.get_freeze_count() == before


def test_what_others_have_set_aside_stays_so():
    gc.freeze()
    try:
        with frozen_objects():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
