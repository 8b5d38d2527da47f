"""Where an application that was reset begins to read."""

import pytest

from penstock import StreamsBuilder
from penstock.engine.record import EpochRecord, nested, rows_of
from penstock.engine.recovery import learn
from penstock.engine.reset_point import ResetPoint
from penstock.log.base import TopicSpec
from penstock.log.memory import MemoryLog
from penstock.log.topics import epochs_topic

PLACES = [("in", 0), ("in", 1), ("in", 2)]


@pytest.fixture
def log():
    made = MemoryLog()
    made.admin.ensure_topics([TopicSpec("in", 3), epochs_topic("app")])
    producer = made.producer(None)
    producer.produce([("in", partition, None, b"v", 100 * n, ()) for partition in (0, 1) for n in range(5 + partition)])
    return made


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        (ResetPoint.earliest(), (0, 0, 0)),
        (ResetPoint.latest(), (5, 6, 0)),
        (ResetPoint.offset(3), (3, 3, 0)),
        (ResetPoint.offset(99), (5, 6, 0)),
        (ResetPoint.time(250), (3, 3, 0)),
        (ResetPoint.time(450), (5, 5, 0)),
    ],
)
def test_a_point_is_an_offset_of_every_partition(log, point, expected):
    assert tuple(point.positions(log.admin, PLACES)[place] for place in PLACES) == expected


def test_a_start_goes_on_from_there_with_empty_stores(log):
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(store="counts")
    record = EpochRecord(
        epoch=0,
        token="reset",
        application_id="app",
        shards=8,
        lanes=1,
        offsets=nested({("in", 1): 3}),
        incarnation="new",
    )
    log.producer(None).produce(rows_of(record, 0, 1 << 20))
    found = learn(log, builder.build(), "app", 4, 2, allow_change=False)
    assert (found.epoch, found.positions, found.incarnation) == (0, {("in", 1): 3}, "new")
    assert len(found.shards) == 4
    assert found.changelogs == {}
