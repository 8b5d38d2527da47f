"""A record in the middle of a batch that cannot go by column: what was done stays done, few around it go one by one."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from both_ways import Runs, both_ways, needs_kernels, trying
from hypothesis import given
from hypothesis import strategies as st

from penstock import Serdes, StreamsBuilder
from penstock.kernels import fold
from penstock.lane.task import Task
from penstock.lane.task_batches import TaskBatches
from penstock.protocol.envelope import pack_headers
from penstock.watermark import LatePolicy
from penstock.windows import SessionWindows, TimeWindows

MANY = 20_000
#: how many may go one by one, or be seen twice, because of one of them: a number, so that whoever makes parts larger hears of it
FEW = 300
#: where the records of a batch have to be read again
SOME = 1_100


class Box(msgspec.Struct):
    n: int


def stream(b: StreamsBuilder) -> Any:
    return b.stream("in", key=Serdes.string, value=Serdes.json)


def of(value: Any) -> int:
    if value["n"] == 3:
        raise ValueError("three")
    return value["n"]


def mapping(b: StreamsBuilder) -> None:
    mapped = stream(b).filter(lambda k, v: of(v) != 1).map_values(lambda v: {"n": 7 // (of(v) - 2)})
    mapped.select_key(lambda k, v: f"{k}{v['n'] // (v['n'] + 7)}").map(lambda k, v: (k, v) if v["n"] > 2 else v).to(
        "out"
    )


def flat_mapping(b: StreamsBuilder) -> None:
    def pairs(key: Any, value: Any) -> Any:
        yield [key, value]
        yield key + "!", of(value)
        yield key if value["n"] == 2 else (key, 0)

    source = stream(b)
    source.flat_map(pairs).to("out")
    source.flat_map_values(lambda v: (of({"n": n}) for n in range(v["n"] + 1))).to("other")


def stopping(b: StreamsBuilder) -> None:
    """A function that raises what ends a loop."""
    stream(b).map_values(lambda v: next(iter([v["n"]] * (v["n"] % 3)))).to("out")


def unwritable(b: StreamsBuilder) -> None:
    """Values that a sink cannot write, beside a branch that can."""
    source = stream(b).map_values(lambda v: v["n"] if v["n"] != 2 else {"no": {1, 2}})
    source.to("out")
    source.map_values(str).to("other")


def unwritable_rows(b: StreamsBuilder) -> None:
    def gathered(key: Any, value: Any, so_far: Any) -> Any:
        return {1, 2} if value["n"] == 2 else [*so_far, value["n"]]

    stream(b).group_by_key().aggregate(list, gathered, store="s").to_stream().to("out")


def merging(b: StreamsBuilder) -> None:
    """A reducer that changes both of its values, and fails in between."""

    def merged(a: Box, v: Box) -> Box:
        a.n += v.n
        v.n += 100
        if a.n % 5 == 0:
            raise ValueError("five")
        return a

    boxes = Serdes.json_of(Box)
    source = b.stream("in", key=Serdes.string, value=boxes)
    source.group_by_key().reduce(merged, store="s", value=boxes).to_stream().to("out", value=boxes)


def merging_mapped(b: StreamsBuilder) -> None:
    """The same with values that there are no bytes of."""

    def merged(a: Any, v: Any) -> Any:
        a["n"] += v["n"]
        v["n"] += 100
        if a["n"] % 5 == 0:
            raise ValueError("five")
        return None if a["n"] % 7 == 0 else a

    source = stream(b).map_values(lambda v: {"n": of(v) + 1})
    source.group_by_key(value=Serdes.json).reduce(merged, store="s").to_stream().to("out")


def beginning(b: StreamsBuilder) -> None:
    """What begins a row fails now and then."""
    begun = Counter[str]()

    def begin() -> Any:
        begun["all"] += 1
        return {"n": 0}

    def added(key: Any, value: Any, total: Any) -> Any:
        total["n"] += of(value)
        return total

    stream(b).group_by_key().aggregate(begin, added, store="s").to_stream().to("out")


def windows(b: StreamsBuilder) -> None:
    def added(key: Any, value: Any, total: Any) -> Any:
        total.append(value["n"])
        of(value)
        value["n"] = 99
        return None if len(total) == 3 else total

    grouped = stream(b).filter(lambda k, v: v is not None).group_by_key(value=Serdes.json)
    for name, out, hop in (("s", "out", 10), ("t", "other", 5)):
        counts = grouped.windowed_by(TimeWindows(10, advance=hop, grace=5)).aggregate(list, added, store=name)
        counts.to_stream().map(lambda k, v: (str(k), v)).to(out)


def sessions(b: StreamsBuilder) -> None:
    mapped = stream(b).filter(lambda k, v: v is not None).map_values(lambda v: {"n": v["n"]})
    folded = mapped.group_by_key(value=Serdes.json).windowed_by(SessionWindows(5, grace=5))
    folded.aggregate(
        lambda: 0, lambda k, v, a: a + of(v), lambda k, a, b: a + b, store="s", value=Serdes.json
    ).to_stream().map(lambda k, v: (str(k), v)).to("out")


def joining(b: StreamsBuilder) -> None:
    table = b.table("side", key=Serdes.string, value=Serdes.json, store="s")
    joined = stream(b).join(table, lambda v, row: of(v) // row["n"])
    joined.to("out")
    stream(b).left_join(table, lambda v, row: row["n"] + of(v)).group_by_key(value=Serdes.json).reduce(max, store="t")


def forked_merging(b: StreamsBuilder) -> None:
    """The same, where another branch has the values, too."""
    merging(b)
    b.stream("in", key=Serdes.string, value=Serdes.json_of(Box)).to("other", value=Serdes.json_of(Box))


def tumbling(b: StreamsBuilder) -> None:
    def added(key: Any, value: Any, total: Any) -> Any:
        total.append(value["n"])
        value["n"] += of(value)
        return total

    lists = stream(b).group_by_key().windowed_by(TimeWindows(10, grace=5)).aggregate(list, added, store="s")
    lists.to_stream().map(lambda k, v: (str(k), v)).to("out")


def hopping(b: StreamsBuilder) -> None:
    numbers = stream(b).map_values(lambda v: v["n"]).group_by_key(value=Serdes.json)
    sums = numbers.windowed_by(TimeWindows(10, advance=5, grace=5)).aggregate(
        lambda: 0, lambda k, v, a: a + of({"n": v}), store="s", value=Serdes.json
    )
    sums.to_stream().map(lambda k, v: (str(k), v)).to("out")


SHAPES = [
    mapping, flat_mapping, stopping, unwritable, unwritable_rows, merging, forked_merging, merging_mapped, beginning, windows,
    sessions, joining,
]  # fmt: skip

#: some of them cannot be read, have no key or no value, or fail
records = st.lists(
    st.tuples(
        st.sampled_from(["in", "in", "side"]),
        st.integers(0, 1),
        st.sampled_from([b"a", b"a", b"b", b"c", None]),
        st.integers(0, 5).map(lambda n: b'{"n":%d}' % n) | st.sampled_from([b"{", b"{}", None]),
        st.integers(0, 40),
        st.sampled_from([None, None, pack_headers((("h", b"1"),))]),
    ),
    max_size=60,
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@trying(20)
@given(epochs=st.lists(records, min_size=1, max_size=2))
def test_records_among_which_some_fail_are_the_same_both_ways(shape, policy, folders, epochs):
    both_ways(shape, folders, epochs, policy, by_key=True)


def in_order(rows_: list[Any]) -> list[Any]:
    """Return records of one partition as time goes on: windows and sessions then stay by column."""
    times = sorted(time for *_, time, _ in rows_)
    return [
        (topic, 0, key, value, time, headers)
        for (topic, _, key, value, _, headers), time in zip(rows_, times, strict=True)
    ]


@pytest.mark.parametrize("shape", [tumbling, hopping, sessions, merging], ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@trying(40)
@given(epochs=st.lists(records.map(in_order), min_size=1, max_size=1))
def test_folds_of_records_in_order_among_which_some_fail_are_the_same_both_ways(shape, policy, folders, epochs):
    both_ways(shape, folders, epochs, policy, by_key=True)


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (sessions, [(1, 0), (3, 2), (1, 3), (1, 20)]),  # a session that was found is gone, though its aggregator failed
        (
            forked_merging,
            [(1, 0), (2, 0), (2, 0), (1, 0)],
        ),  # the other branch has what a function has changed, and no more
        (hopping, [(0, 0), (0, 0), (3, 5)]),  # a record that fails in a window does not come to the next
    ],
)
def test_folds_that_fail_leave_what_they_would_one_by_one(shape, told, folders):
    both_ways(shape, folders, [[("in", 0, b"a", b'{"n":%d}' % n, time, None) for n, time in told]], "skip")


def fails_at(seen: Counter[int], bad: int | None = None, answer: Any = None) -> Any:
    """Return a function that counts which records it sees, and fails at one of them."""

    def called(value: Any) -> Any:
        seen[value["i"]] += 1
        if value["i"] == bad:
            raise ValueError("bad")
        return value if answer is None else answer

    return called


def rows(bad: dict[int, bytes | None] | None = None, keys: bytes = b"abcd") -> list[Any]:
    """Return records without surprises, but for some."""
    values = [b'{"i":%d}' % i for i in range(MANY)]
    for place, value in (bad or {}).items():
        values[place] = value
    return [("in", 0, keys[i % len(keys) :][:1], value, i // 100, None) for i, value in enumerate(values)]


def run_once(shape: Any, folder: str, records_: list[Any], monkeypatch: Any, policy: str = "skip") -> tuple[Any, int]:
    """Run an epoch; return what can be seen of it, and how many records went one by one."""
    single = Counter[str]()
    process, process_at = Task.process_all, TaskBatches.process_at

    def all_of(task: Any, source: str, some: Any) -> None:
        some = list(some)
        single["records"] += len(some)
        process(task, source, some)

    def at_node(batches: Any, node: str, columns: Any) -> None:
        single["records"] += len(columns)
        process_at(batches, node, columns)

    monkeypatch.setattr(Task, "process_all", all_of)
    monkeypatch.setattr(TaskBatches, "process_at", at_node)
    seen = Runs(shape, folder, policy).epoch(records_)
    assert "failed" not in seen, seen
    return seen, single["records"]


BAD = 12_345


@needs_kernels
def test_a_mapper_that_fails_sees_every_record_once(folders, monkeypatch):
    before, behind = Counter[int](), Counter[int]()

    def shape(b: StreamsBuilder) -> None:
        mapped = stream(b).map_values(fails_at(before, BAD)).filter(lambda k, v: fails_at(behind, BAD + 1)(v))
        mapped.group_by_key(value=Serdes.json).count(store="s").to_stream().to("out", value=Serdes.int64)

    seen, single = run_once(shape, folders(), rows(), monkeypatch)
    assert set(before.values()) == set(behind.values()) == {1}
    assert (len(before), len(behind), single) == (MANY, MANY - 1, 0)
    counts = [Serdes.int64.deserialize(value) for _, value, *_ in seen["sinks"]["out", -1]]
    assert sum(counts) == MANY - 2


@needs_kernels
@pytest.mark.parametrize("value", [b"{", None, b"null"])
def test_a_record_that_cannot_be_read_or_has_no_value_is_seen_by_no_function_and_no_other_twice(
    value, folders, monkeypatch
):
    called = Counter[int]()

    def shape(b: StreamsBuilder) -> None:
        grouped = stream(b).group_by_key()
        grouped.aggregate(lambda: 0, lambda k, v, a: a + fails_at(called, answer=1)(v), store="s")

    seen, single = run_once(shape, folders(), rows({BAD: value}), monkeypatch)
    assert set(called.values()) == {1}
    assert (len(called), single, sum(seen["dropped"].values())) == (MANY - 1, 0, 1)


@needs_kernels
@pytest.mark.parametrize(
    ("keys", "bad"), [(b"a", 0), (b"a", fold.SLICE), (b"a", BAD), (b"abcd", BAD), (b"abcdefghijklmnopqrstuvwxyz", BAD)]
)
def test_an_aggregator_that_fails_sees_few_records_of_that_key_twice(keys, bad, folders, monkeypatch):
    before, called = Counter[int](), Counter[int]()

    def added(key: Any, value: Any, total: Any) -> Any:
        total["n"] += 1  # what is changed before it fails must not stay
        fails_at(called, bad)(value)
        return total

    def shape(b: StreamsBuilder) -> None:
        source = stream(b).filter(lambda k, v: fails_at(before)(v))
        source.group_by_key().aggregate(lambda: {"n": 0}, added, store="s").to_stream().to("out")

    seen, single = run_once(shape, folders(), rows(keys=keys), monkeypatch)
    assert set(before.values()) == {1}
    twice = [i for i, times in called.items() if times > 1]
    assert max(called.values()) == 2
    assert len(twice) <= FEW
    assert {i % len(keys) for i in twice} == {bad % len(keys)}
    assert single <= FEW
    assert sum(msgspec.json.decode(value)["n"] for _, value, *_ in seen["sinks"]["out", -1]) == MANY - 1


@needs_kernels
@pytest.mark.parametrize("windows_", [TimeWindows(50, grace=10), SessionWindows(5, grace=10)])
def test_an_aggregator_of_windows_that_fails_sees_few_records_of_that_window_twice(windows_, folders, monkeypatch):
    before, called = Counter[int](), Counter[int]()

    def added(key: Any, value: Any, total: int) -> int:
        fails_at(called, BAD)(value)
        return total + 1

    def shape(b: StreamsBuilder) -> None:
        grouped = stream(b).filter(lambda k, v: fails_at(before)(v)).group_by_key().windowed_by(windows_)
        merger = {"merger": lambda k, a, b: a + b} if isinstance(windows_, SessionWindows) else {}
        grouped.aggregate(lambda: 0, added, **merger, store="s", value=Serdes.json)

    seen, single = run_once(shape, folders(), rows(), monkeypatch)
    assert set(before.values()) == {1}
    assert max(called.values()) <= 2
    assert sum(times > 1 for times in called.values()) <= FEW
    assert (single, list(seen["dropped"].values())) == (0, [1])


@needs_kernels
def test_a_late_record_lets_no_function_in_front_of_the_window_see_a_record_twice(folders, monkeypatch):
    called = Counter[int]()

    def shape(b: StreamsBuilder) -> None:
        source = b.stream("in", key=Serdes.string, value=Serdes.json, late=LatePolicy.dead_letter)
        grouped = source.filter(lambda k, v: fails_at(called)(v)).group_by_key()
        grouped.windowed_by(TimeWindows(50, grace=0)).count(store="s")

    late = [(*row[:4], 0, None) if at == BAD else row for at, row in enumerate(rows())]
    seen, single = run_once(shape, folders(), late, monkeypatch)
    assert set(called.values()) == {1}
    assert 0 < single <= FEW
    assert list(seen["dropped"].values()) == [1]


@needs_kernels
def test_a_value_that_a_sink_cannot_write_lets_no_function_see_a_record_twice(folders, monkeypatch):
    called = Counter[int]()

    def shape(b: StreamsBuilder) -> None:
        source = stream(b).map_values(lambda v: {1} if fails_at(called)(v)["i"] == BAD else v["i"])
        source.to("out")
        source.map_values(str).to("other")

    seen, single = run_once(shape, folders(), rows(), monkeypatch)
    assert set(called.values()) == {1}
    assert (len(seen["sinks"]["out", -1]), len(seen["sinks"]["other", -1]), single) == (MANY - 1, MANY, 0)
    assert {reason for _, reason in seen["dropped"]} == {"serialization_error"}


@needs_kernels
def test_a_row_that_is_deleted_lets_few_records_go_one_by_one(folders, monkeypatch):
    called = Counter[int]()

    def shape(b: StreamsBuilder) -> None:
        def added(key: Any, value: Any, total: int) -> int | None:
            return None if fails_at(called)(value)["i"] == BAD else total + 1

        stream(b).group_by_key().aggregate(lambda: 0, added, store="s", value=Serdes.json).to_stream().to("out")

    seen, single = run_once(shape, folders(), rows(), monkeypatch)
    assert max(called.values()) == 2
    assert single <= FEW
    counts = {key: msgspec.json.decode(value) for key, value, *_ in seen["sinks"]["out", -1]}
    assert counts == {b"a": MANY // 4, b"b": (MANY - BAD) // 4, b"c": MANY // 4, b"d": MANY // 4}


@needs_kernels
def test_what_a_function_has_changed_of_a_forked_stream_is_read_again(folders, monkeypatch):
    """Another branch has the same values: records of the batch go again from their source, in parts."""
    called = Counter[int]()

    def shape(b: StreamsBuilder) -> None:
        def added(key: Any, value: Any, total: int) -> int:
            fails_at(called, BAD)(value)
            return total + 1

        source = stream(b)
        source.group_by_key().aggregate(lambda: 0, added, store="s", value=Serdes.json)
        source.map_values(lambda v: v["i"]).to("out")

    _, single = run_once(shape, folders(), rows(), monkeypatch)
    assert max(called.values()) <= 3
    assert single <= SOME
