"""The check of the lookup benchmark finds what is lost, doubled, wrong or out of order."""

import pytest
from bench.blocking_lookup import check, expected
from bench.data import DataSet
from bench.peers.system import SystemFailed

from penstock.log.base import TopicSpec
from penstock.log.memory import MemoryLog

DATA = DataSet("lookups", records=40, keys=3, partitions=2)


def written(change=lambda rows: rows):
    log = MemoryLog()
    log.admin.ensure_topics([TopicSpec("out", 2)])
    right = [(key, value) for key, values in expected(DATA).items() for value in values]
    log.producer(None).produce([("out", len(key) % 2, key, value, 0, ()) for key, value in change(right)])
    return log


def test_right_results_are_counted():
    assert check(written(), "out", DATA) == 40


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[:-1],
        lambda rows: [*rows, rows[-1]],
        lambda rows: [rows[1], rows[0], *rows[2:]],
        lambda rows: [(rows[0][0], b"{}"), *rows[1:]],
        lambda rows: [*rows, (b"stranger", b"{}")],
    ],
    ids=["lost", "doubled", "out of order", "wrong", "of no record"],
)
def test_wrong_results_are_found(change):
    with pytest.raises(SystemFailed, match="other results"):
        check(written(change), "out", DATA)
