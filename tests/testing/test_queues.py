"""The heap of queues gives equal timestamps in the order of Java's PriorityQueue."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.record import NO_ORIGIN
from penstock.testing.queues import QueueHeap, RecordQueue
from penstock.testing.record_tasks import Decoded


def queue_at(timestamp, name="q"):
    queue = RecordQueue(lambda raw, time: Decoded(name, 0, None, None, timestamp, (), NO_ORIGIN))
    queue.add(None)
    return queue


@given(st.lists(st.integers(0, 5), max_size=40))
def test_queues_come_out_by_timestamp(times):
    heap = QueueHeap()
    for time in times:
        heap.offer(queue_at(time))
    taken = []
    while heap:
        taken.append(heap.poll().head.timestamp)
    assert taken == sorted(times)


def test_equal_timestamps_come_out_as_javas_heap_has_them():
    # java.util.PriorityQueue with a, b, c, d, e of one priority polls a, e, d, c, b
    heap = QueueHeap()
    for name in "abcde":
        heap.offer(queue_at(1, name))
    assert "".join(heap.poll().head.source for _ in range(5)) == "aedcb"


def test_only_the_head_is_decoded_and_knows_the_time_of_those_before():
    seen = []

    def read(raw, partition_time):
        seen.append((raw, partition_time))
        return Decoded("s", 0, None, None, raw, (), NO_ORIGIN)

    queue = RecordQueue(read)
    for timestamp in (5, 3, 9):
        queue.add(timestamp)
    assert seen == [(5, -1)]
    queue.poll()
    queue.poll()
    assert seen == [(5, -1), (3, 5), (9, 5)]


def test_a_record_that_is_dropped_gives_way_to_the_next():
    queue = RecordQueue(lambda raw, time: None if raw < 0 else Decoded("s", 0, None, None, raw, (), NO_ORIGIN))
    assert not queue.add(-1)
    assert queue.add(4)
    assert queue.poll().timestamp == 4
