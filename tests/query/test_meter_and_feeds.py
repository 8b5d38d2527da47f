"""Queries are counted by how they end; changes of a barrier go to those who listen to that store, whatever a listener does."""

import pyarrow as pa
import pytest

from penstock import KeyQuery
from penstock.errors import BadKey, UnknownStore
from penstock.query.barriers import Barrier
from penstock.query.changes import ChangeFeeds
from penstock.query.meter import QueryMeter


def test_queries_are_counted_by_their_end_and_unknown_stores_have_no_name():
    meter = QueryMeter()

    def failing(error):
        def ask():
            raise error

        return ask

    for _ in range(2):
        assert meter.measured("counts", KeyQuery("a"), lambda: "found") == "found"
    for store, error in (("counts", BadKey("no key")), ("anything", UnknownStore("no store"))):
        with pytest.raises(type(error)):
            meter.measured(store, KeyQuery("a"), failing(error))
    assert meter.counts == {
        ("counts", "KeyQuery", "answered"): 2,
        ("counts", "KeyQuery", "BadKey"): 1,
        ("", "KeyQuery", "UnknownStore"): 1,
    }
    assert {asked: found.cumulative()[-1] for asked, found in meter.seconds.items()} == {("counts", "KeyQuery"): 2}


def rows(*keys):
    return pa.table({"partition": [0] * len(keys), "key": keys, "value": keys, "timestamp": [5] * len(keys)})


def test_changes_go_to_those_who_listen_to_the_store_and_a_listener_that_fails_stops_nobody(caplog):
    feeds, heard = ChangeFeeds(["counts", "sums"]), []

    def fails(changes):
        raise RuntimeError("mine")

    def told(name):
        return lambda changes: heard.append((name, changes.barrier.epoch, [row.key for row in changes]))

    with feeds.subscribe("counts", fails), feeds.subscribe("counts", told("a")), feeds.subscribe("sums", told("b")):
        assert feeds.wanted == {"counts", "sums"}
        feeds.publish(Barrier(3, {}), [("counts", rows(b"x", b"y")), ("sums", rows(b"z"))])
    feeds.publish(Barrier(4, {}), [("counts", rows(b"x"))])
    assert heard == [("a", 3, [b"x", b"y"]), ("b", 3, [b"z"])]
    assert "a listener of the changes of counts has failed at epoch 3" in caplog.text
    assert feeds.wanted == frozenset()


def test_a_store_without_a_changelog_has_no_changes():
    feeds = ChangeFeeds(["counts"])
    assert (feeds.has("counts"), feeds.has("global")) == (True, False)
    with pytest.raises(KeyError):
        feeds.subscribe("global", print)
