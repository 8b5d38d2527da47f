"""The committed of a barrier, and the way from one to the next through orders, reports and the record."""

from penstock.engine.committed_state import CommittedState
from penstock.engine.record import decode, encode
from penstock.protocol.report import TaskReport
from penstock.protocol.request import ShardRequest, decode_request, encode_request

SNAPSHOT = {
    "punctuations": {"wall_clock_time": {"scheduled": {}, "due": [["n", 0, 70]], "next": 70}},
    "due": {},
    "stores": {},
}


def first(shards=2):
    return CommittedState(
        "app", "life", 1, tuple(ShardRequest() for _ in range(shards)), changelogs={"s": [0] * shards}
    )


def test_a_shard_that_was_written_gets_the_token_as_its_version():
    after = first().after("t1", [TaskReport(0, 0, pending={1: "file"})], {("in", 0): 4}, {"s": [0, 3]})
    assert after.shards == (ShardRequest(), ShardRequest("t1", "", ("file",)))
    again = after.after("t2", [TaskReport(0, 0, pending={1: "other"})], {("in", 0): 5}, {"s": [0, 4]})
    assert again.shards[1] == ShardRequest("t2", "t1", ("other",))
    assert (again.epoch, again.positions, again.changelogs) == (2, {("in", 0): 5}, {"s": [0, 4]})


def test_files_of_several_steps_are_applied_in_the_order_of_the_steps():
    reports = [TaskReport(2, 0, pending={0: "late"}), TaskReport(0, 1, pending={0: "early"})]
    assert first().after("t", reports, {}, {"s": [0, 0]}).shards[0].pending == ("early", "late")


def test_times_only_grow_and_snapshots_of_quiet_shards_stay():
    one = first().after("a", [TaskReport(0, 0, reached=[("in", 0, 9)], snapshots={0: SNAPSHOT})], {}, {"s": [0, 0]})
    two = one.after("b", [TaskReport(0, 0, reached=[("in", 0, 4)], snapshots={1: SNAPSHOT})], {}, {"s": [0, 0]})
    assert two.reached == {("in", 0): 9}
    assert two.snapshots == {0: {0: SNAPSHOT, 1: SNAPSHOT}}
    assert two.due({0: range(2)}) == 70


def test_what_is_due_where_no_epoch_without_input_would_run_it_is_not_due():
    """Another topology has left it; to run epochs for it would never end."""
    after = first().after("a", [TaskReport(0, 0, snapshots={1: SNAPSHOT})], {}, {"s": [0, 0]})
    assert after.due({0: range(1)}) is None
    assert after.due({1: range(2)}) is None
    assert after.due({}) is None


def test_a_ledger_comes_back_from_its_record_whole():
    reports = [TaskReport(1, 0, pending={1: "file"}, reached=[("in", 0, 9)], snapshots={1: SNAPSHOT})]
    after = first().after("t1", reports, {("in", 0): 4}, {"s": [0, 3]})
    record = after.record("t1", fingerprint="f", topology="t", committed_at=1)
    back = CommittedState.from_record(decode(encode(record)), lanes=1)
    assert back == after


def test_orders_travel_as_bytes():
    after = first().after("t1", [TaskReport(0, 0, snapshots={1: SNAPSHOT})], {("in", 0): 4}, {"s": [0, 3]})
    request = after.request("t2", source_of={"in": "node"}, partitions={"out": 3}, global_ends={("g", 0): 2})
    assert decode_request(encode_request(request)) == request
    assert (request.epoch, request.positions, request.topics) == (2, [("in", 0, 4)], ("in",))
