"""By column or one by one: whatever way records go through a step, what leaves it is the same."""

import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Serdes, StreamsBuilder
from penstock import config as configuration
from penstock.lane import inbox, run
from penstock.lane.envelope import CHANGELOG, FAILURE, NOTE, PENDING, RECORD, SINK, rows_of
from penstock.lane.inbox import RAW_SCHEMA
from penstock.lane.orders import Orders, ShardOrder, Stage, decode_report
from penstock.lane.run import run_step
from penstock.lane.task import Task
from penstock.lane.worker import Worker
from penstock.plan.plan import make_plan
from penstock.windows import TimeWindows

SHARDS = 2
NEVER = 1 << 40


class Total(msgspec.Struct):
    count: int
    sum: int


def add(_key: Any, value: Any, total: Total) -> Total:
    total.count += 1
    total.sum += value["n"]
    return total


def stream(builder: StreamsBuilder) -> Any:
    return builder.stream("in", key=Serdes.string, value=Serdes.json)


def count(b: StreamsBuilder) -> None:
    stream(b).group_by_key().count(store="s").to_stream().to("out", value=Serdes.int64)


def sum_up(b: StreamsBuilder) -> None:
    summed = stream(b).group_by_key().aggregate(lambda: 0, lambda k, v, a: a + v["n"], store="s", value=Serdes.json)
    summed.to_stream().filter(lambda k, v: v % 3).to("out")


def totals(b: StreamsBuilder) -> None:
    kept = Serdes.json_of(Total)
    stream(b).group_by_key().aggregate(lambda: Total(0, 0), add, store="s", value=kept).to_stream().to(
        "out", value=kept
    )


def tuples(b: StreamsBuilder) -> None:
    """A serde that gives a list back for a tuple: what the function sees depends on it."""
    stream(b).group_by_key().aggregate(
        lambda: (), lambda k, v, a: (type(a).__name__, v["n"]), store="s"
    ).to_stream().to("out")


def deleting(b: StreamsBuilder) -> None:
    folded = stream(b).group_by_key().aggregate(lambda: 0, lambda k, v, a: None if v["n"] == 2 else a + 1, store="s")
    folded.to_stream().to("out")


def reduced(b: StreamsBuilder) -> None:
    stream(b).group_by_key().reduce(lambda a, v: {"n": (a["n"] * 2 + v["n"]) % 1000}, store="s").to_stream().to("out")


def stateless(b: StreamsBuilder) -> None:
    some = stream(b).filter(lambda k, v: v is not None).filter_not(lambda k, v: v["n"] == 1)
    some.map_values(lambda v: v["n"] + 1).map(lambda k, v: (f"{k}!", v)).flat_map_values(lambda v: range(v % 3)).to(
        "out"
    )


def pass_on(b: StreamsBuilder) -> None:
    stream(b).to("out")


def rekeyed(b: StreamsBuilder) -> None:
    words = stream(b).filter(lambda k, v: v is not None).flat_map(lambda k, v: [(str(v["n"]), "w"), ("all", "w")])
    words.group_by_key().count(store="s").to_stream().to("out", value=Serdes.int64)


def selected(b: StreamsBuilder) -> None:
    stream(b).select_key(lambda k, v: None if v is None else str(v["n"] % 2)).group_by_key().aggregate(
        list, lambda k, v, a: [*a, v["n"]], store="s"
    ).to_stream().to("out")


def forked(b: StreamsBuilder) -> None:
    source = stream(b)
    source.map_values(lambda v: v).to("other")
    source.group_by_key().reduce(lambda a, v: v, store="s").to_stream().to("out")
    source.filter(lambda k, v: v is not None).group_by(lambda k, v: str(v["n"])).count(store="t")


def meeting(b: StreamsBuilder) -> None:
    """Two branches into one topic: its order is that of the records."""
    source = stream(b)
    source.map_values(lambda v: "one").to("out")
    source.map_values(lambda v: "other").to("out")


class Box(msgspec.Struct):
    n: int


def mutating(b: StreamsBuilder) -> None:
    """A function that changes what another branch has, too; the serde would give it back as it was."""
    boxes = Serdes.json_of(Box)
    source = b.stream("in", key=Serdes.string, value=boxes)

    def merged(a: Any, v: Any) -> Any:
        a.n += v.n
        return a

    source.group_by_key().reduce(merged, store="s", value=boxes).to_stream().to("out", value=boxes)
    source.to("other", value=boxes)


def table(b: StreamsBuilder) -> None:
    b.table("in", key=Serdes.string, value=Serdes.json, store="s").filter(lambda k, v: v["n"] > 1).to_stream().to("out")


def windowed(b: StreamsBuilder) -> None:
    windows = TimeWindows(10, grace=5)
    keys = Serdes.windowed(Serdes.string, 10)
    stream(b).group_by_key().windowed_by(windows).count(store="s").to_stream().to("out", key=keys, value=Serdes.int64)


def windowed_sum(b: StreamsBuilder) -> None:
    windows = TimeWindows(10, grace=5)
    grouped = stream(b).filter(lambda k, v: v is not None).group_by(lambda k, v: str(v["n"] % 2)).windowed_by(windows)
    grouped.aggregate(lambda: 0, lambda k, v, a: a + v["n"], store="s").to_stream().map(lambda k, v: (str(k), v)).to(
        "out"
    )


def joined(b: StreamsBuilder) -> None:
    table = b.table("in", key=Serdes.string, value=Serdes.json, store="s")
    stream_of = b.stream("side", key=Serdes.string, value=Serdes.json)
    stream_of.join(table, lambda v, row: [v["n"], row["n"]]).to("out")
    stream_of.left_join(table, lambda v, row: row is None).to("other")


def joined_with_counts(b: StreamsBuilder) -> None:
    """A table of counts that is read while it is written."""
    source = stream(b).filter(lambda k, v: v is not None)
    counts = source.group_by(lambda k, v: str(v["n"])).count(store="s")
    rekeyed = source.select_key(lambda k, v: str(v["n"]))
    rekeyed.join(counts, lambda v, count: [v["n"], count]).to("out")


SHAPES: list[Callable[[StreamsBuilder], None]] = [
    count, sum_up, totals, tuples, deleting, reduced, stateless, pass_on, rekeyed, selected, forked, meeting, mutating, table,
    windowed, windowed_sum, joined, joined_with_counts,
]  # fmt: skip

values = st.one_of(
    st.integers(0, 4).map(lambda n: msgspec.json.encode({"n": n})), st.sampled_from([b'{ "n" : 3 }', None, b"{", b"{}"])
)
#: topic, partition, key, value, timestamp, headers
records = st.lists(
    st.tuples(
        st.sampled_from(["in", "in", "in", "side"]),
        st.integers(0, 1),
        st.sampled_from([b"a", b"b", b"c", b"d", None, b"\xff"]) | st.sampled_from([b"a", b"b"]),
        values,
        st.integers(0, 40),
        st.sampled_from([None, None, '[{"key":"h","value":"MQ=="}]']),
    ),
    max_size=40,
)
usual = st.lists(
    st.tuples(
        st.sampled_from(["in", "side"]),
        st.integers(0, 1),
        st.sampled_from([b"a", b"b", b"c"]),
        st.integers(0, 4).map(lambda n: msgspec.json.encode({"n": n})),
        st.integers(0, 40),
        st.none(),
    ),
    min_size=1,
    max_size=60,
)


class Runs:
    """An application's steps, run without Spark over a folder of its own."""

    def __init__(self, shape: Callable[[StreamsBuilder], None], folder: str, policy: str) -> None:
        builder = StreamsBuilder()
        shape(builder)
        policies = {f"on_{name}_error": policy for name in ("processing", "deserialization")}
        config = configuration.load({"application_id": "app", "dead_letter_topic": "dead", **policies}, environ={})
        plan = make_plan(builder.build())
        self._stage = Stage(plan, "app", config, SHARDS, 1, folder, "nowhere:1")
        self._worker = Worker(self._stage)
        topics = {
            topic: name for name, node in self._stage.sources.items() if not node.internal for topic in node.topics
        }
        self._topics, self._source_of = tuple(sorted(topics)), topics
        self._offsets: dict[tuple[str, int], int] = {}
        self._shards = [ShardOrder()] * SHARDS
        self._snapshots: dict[int, dict[int, Any]] = {}
        self._epoch = 0

    def epoch(self, given_records: list[Any]) -> dict[str, Any]:
        """Run an epoch; return what can be seen of it."""
        self._epoch += 1
        orders = Orders(
            epoch=self._epoch, token=str(self._epoch), incarnation="x", shards=tuple(self._shards),
            changelogs={name: [0] * SHARDS for name in self._stage.plan.topology.stores}, positions=[], topics=self._topics,
            source_of=self._source_of, reached=[], partitions={"out": 2, "other": 2, "dead": 2}, snapshots=self._snapshots, global_ends=[],
        )  # fmt: skip
        rows = [row for row in map(self._raw, given_records) if row is not None]
        batches: list[Any] = pa.Table.from_pylist(rows, RAW_SCHEMA).to_batches()
        for step in self._stage.plan.steps:
            first = step.level == 0
            if first and step.exchange and step.timed:
                batches = list(run.tell_times(self._worker, orders, batches))
            batches = list(run_step(self._worker, orders, step.level, 0, batches))
        return self._seen([row for batch in batches for row in rows_of(batch)])

    def _raw(self, record: Any) -> dict[str, Any] | None:
        topic, partition, key, value, timestamp, headers = record
        if topic not in self._topics:
            return None
        offset = self._offsets[topic, partition] = self._offsets.get((topic, partition), -1) + 1
        shard = partition % SHARDS if key is None else zlib.crc32(key) % SHARDS
        place = self._topics.index(topic) * 65536 + partition
        columns = (shard, place, offset, key, value, timestamp, headers)
        return dict(zip(RAW_SCHEMA.names, columns, strict=True))

    def _seen(self, rows: list[Any]) -> dict[str, Any]:
        failed = [row.value for row in rows if row.kind == FAILURE]
        if failed:
            return {"failed": failed[0].count(b"ProcessingError"), "why": failed[0]}
        seen: dict[str, Any] = {"sinks": {}, "changelogs": {}, "dropped": {}, "snapshots": {}}
        for row in rows:
            assert row.kind not in (RECORD, PENDING)
            if row.kind == SINK:
                key = (row.name, row.partition, row.key)
                seen["sinks"].setdefault(key, []).append((row.value, row.timestamp, row.headers))
            elif row.kind == CHANGELOG:
                seen["changelogs"][row.name, row.partition, row.key] = (row.value, row.timestamp, row.headers)
            elif row.kind == NOTE:
                self._note(decode_report(row.value), seen)
        return seen

    def _note(self, report: Any, seen: dict[str, Any]) -> None:
        for node, reason, many in report.dropped:
            seen["dropped"][node, reason] = seen["dropped"].get((node, reason), 0) + many
        for shot in report.snapshots.values():  # in which order a clock has come to know the partitions does not matter
            for times in [*shot["clocks"].values(), *(store.get("times", []) for store in shot["stores"].values())]:
                times.sort()
        seen["snapshots"][report.level] = report.snapshots
        self._snapshots.setdefault(report.level, {}).update(report.snapshots)
        for shard, name in report.pending.items():
            before = self._shards[shard].version
            known = self._shards[shard].pending if before == str(self._epoch) else ()
            last = self._shards[shard].before if before == str(self._epoch) else before
            self._shards[shard] = ShardOrder(str(self._epoch), last, (*known, name))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    return lambda: str(tmp_path_factory.mktemp("state"))


def both_ways(shape: Any, folders: Any, epochs: list[list[Any]], policy: str) -> None:
    seen = []
    for few, short in ((1, 1), (NEVER, 16)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "FEW", few)
            patch.setattr(inbox, "SHORT", short)
            runs = Runs(shape, folders(), policy)
            seen.append([runs.epoch(epoch) for epoch in epochs])
    assert seen[0] == seen[1]
    assert not any("failed" in epoch for epoch in seen[0]), seen[0]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@settings(max_examples=15, deadline=None)
@given(epochs=st.lists(usual, min_size=1, max_size=2))
def test_usual_records(shape, folders, epochs):
    both_ways(shape, folders, epochs, "fail")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@settings(max_examples=8, deadline=None)
@given(epochs=st.lists(records, min_size=1, max_size=2))
def test_records_of_which_some_cannot_be_read_or_fail(shape, policy, folders, epochs):
    both_ways(shape, folders, epochs, policy)


@pytest.mark.parametrize("many", [255, 256, 70_000])
def test_records_that_are_counted_ahead_are_counted_whatever_their_number(folders, many):
    runs = Runs(rekeyed, folders(), "fail")
    epoch = [("in", 0, b"a", b'{"n":1}', 0, None)] * many
    for times in (1, 2):
        seen = runs.epoch(epoch)
        counts = {key: Serdes.int64.deserialize(rows[-1][0]) for (_, _, key), rows in seen["sinks"].items()}
        assert counts == {b"1": times * many, b"all": times * many}


BY_COLUMN = [
    count, sum_up, totals, tuples, reduced, stateless, pass_on, rekeyed, selected, forked, mutating, windowed, windowed_sum,
]  # fmt: skip


@pytest.mark.parametrize("shape", BY_COLUMN, ids=lambda shape: shape.__name__)
def test_records_without_surprises_go_by_column_in_every_step(shape, folders, monkeypatch):
    taken: list[bool] = []
    process = Task.process_columns

    def noted(task: Task, source: str, columns: Any) -> bool:
        taken.append(process(task, source, columns))
        return taken[-1]

    monkeypatch.setattr(Task, "process_columns", noted)
    monkeypatch.setattr(Task, "process_all", lambda *_: pytest.fail("records went one by one"))
    runs = Runs(shape, folders(), "fail")
    for epoch in range(3):
        rows = [
            ("in", n % 2, b"abcdefgh"[n % 8 : n % 8 + 1], b'{"n":3}', 40 * epoch + n // 5, None) for n in range(200)
        ]
        seen = runs.epoch(rows)
        assert "failed" not in seen, seen
    assert taken
    assert all(taken)
