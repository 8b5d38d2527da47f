"""Stores against the real ones, verb by verb: no topology in between, only a processor that owns the store."""

from __future__ import annotations

from contextlib import contextmanager

import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.record import NO_ORIGIN
from penstock.serde import Serdes
from penstock.state.memory import MemoryState
from penstock.state.open import Standalone, open_store
from penstock.state.spec import Stores

TEXT = {"key": Serdes.string, "value": Serdes.string}
KEYS = ["a", "b"]


class Idle:
    def init(self, context):
        pass

    def process(self, record):
        pass

    def close(self):
        pass


@contextmanager
def both(spec):
    """Open the store of Kafka and ours; both after a record of time 0, so that a context exists."""
    builder = oracle.StreamsBuilder()
    builder.add_state_store(spec)
    builder.stream("in", **TEXT).process(Idle, stores=(spec.name,))
    with oracle.TopologyTestDriver(builder) as driver:
        driver.pipe("in", b"k", b"v", 0)
        context = Standalone(NO_ORIGIN._replace(topic="in", partition=0, offset=0, timestamp=0))
        yield driver, driver.store(spec.name), open_store(spec, MemoryState(), context)


def without_end(version):
    """Take away what Kafka's store knows but its outer layer does not pass on."""
    return None if version is None else version._replace(valid_to=None)


versioned_steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(KEYS), st.none() | st.sampled_from("xyz"), st.integers(0, 60)),
        st.tuples(st.just("delete"), st.sampled_from(KEYS), st.none(), st.integers(0, 60)),
        st.tuples(st.just("barrier"), st.none(), st.none(), st.none()),
    ),
    max_size=14,
)


@pytest.mark.capability("ST4")
@pytest.mark.parametrize(("history", "interval"), [(20, 5), (20, 100), (7, 3), (0, 1), (1000, None)])
@settings(max_examples=60, deadline=None)
@given(steps=versioned_steps)
def test_versioned_store(history, interval, steps):
    spec = Stores.versioned("v", history, segment_interval=interval, **TEXT)
    with both(spec) as (driver, theirs, ours):
        changelog = []
        for verb, key, value, timestamp in steps:
            if verb == "put":
                assert ours.put(key, value, timestamp) == theirs.put(key, value, timestamp)
            elif verb == "delete":
                assert without_end(ours.delete(key, timestamp)) == theirs.delete(key, timestamp)
            else:
                sealed = ours.seal()
                changelog += sealed.changelog
                ours.apply(sealed)
            for each in KEYS:
                assert ours.get(each) == theirs.get(each)
                assert list(ours.history(each, reverse=True)) == theirs.versions(each)
                for as_of in range(0, 64, 3):
                    assert without_end(ours.get(each, as_of)) == theirs.get(each, as_of)
        driver.pipe("in", b"k", b"v", 0)  # brings what was logged out of the driver
        theirs_logged = driver.all_output().get(f"{oracle.APPLICATION_ID}-v-changelog", [])
        written = [*changelog, *ours.seal().changelog]
        kafkas = iter([(*row[:3], ()) for row in theirs_logged])
        assert all(row in kafkas for row in written), "in their order; what is refused is logged in Kafka only"


key_value_steps = st.lists(
    st.tuples(
        st.sampled_from(["get", "put", "put_if_absent", "delete", "all", "barrier"]),
        st.sampled_from("abcde"),
        st.none() | st.sampled_from("xyz"),
    ),
    max_size=20,
)


@pytest.mark.capability("ST1")
@pytest.mark.parametrize("spec", [Stores.lru("s", 3, **TEXT), Stores.key_value("s", **TEXT)], ids=["lru", "plain"])
@settings(max_examples=80, deadline=None)
@given(steps=key_value_steps)
def test_key_value_and_lru_stores(spec, steps):
    with both(spec) as (_, theirs, ours):
        for verb, key, value in steps:
            if verb in ("put", "put_if_absent"):
                assert getattr(ours, verb)(key, value) == getattr(theirs, verb)(key, value)
            elif verb in ("get", "delete"):
                assert getattr(ours, verb)(key) == getattr(theirs, verb)(key)
            elif verb == "barrier":
                ours.apply(ours.seal())
            assert list(ours.all()) == list(theirs.all())
            assert list(ours.reverse_range("b", "d")) == list(theirs.reverse_range("b", "d"))
            assert list(ours.prefix_scan("c")) == list(theirs.prefix_scan("c"))
