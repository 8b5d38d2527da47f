"""Topologies of every operator family, and scripts for them: many keys, late and out-of-order records, equal times, nulls.

All functions show the order of what they were given. Records without key or value may not reach an operator, so they never carry a new
greatest time (``random_scripts.settled``).
"""

from contextlib import contextmanager
from random import Random
from typing import Any
from zlib import crc32

from random_scripts import settled

from penstock import (
    Buffer,
    EmitStrategy,
    JoinWindows,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    Suppressed,
    TimeWindows,
)

TEXT = {"key": Serdes.string, "value": Serdes.string}
KEYS = [f"key{number}" for number in range(29)]
#: records of a script
LENGTH = 60
ON_CLOSE = EmitStrategy.on_window_close
FAMILIES: dict[str, Any] = {}


#: families in which one record becomes several in front of a node that acts on time
SPREAD: set[str] = set()


def family(function):
    FAMILIES[function.__name__] = function
    return function


def spread_family(function):
    SPREAD.add(function.__name__)
    return family(function)


def append(key, value, aggregate):
    return f"{aggregate},{value}"[-60:]


def take_out(key, value, aggregate):
    return f"{aggregate},-{value}"[-60:]


def put_in(key, value, aggregate):
    """What is in: what came and went does not show, as a cache may have skipped it."""
    return ",".join(sorted([*filter(None, aggregate.split(",")), value]))


def put_out(key, value, aggregate):
    left = aggregate.split(",")
    left.remove(value)
    return ",".join(left)


def glue(one, other):
    return f"{one},{other}"[-60:]


def merge(key, one, other):
    return f"({one}|{other})"[-90:]


def both(one, other):
    return f"{one}/{other}"


_cached = [False]


@contextmanager
def caches():
    """Let the stores of families that are built meanwhile be cached."""
    _cached.append(True)
    try:
        yield
    finally:
        _cached.pop()


def kv(name):
    return Stores.key_value(name, cached=_cached[-1], **TEXT)


def grouped(builder, topic="a"):
    return builder.stream(topic, **TEXT).group_by_key(**TEXT)


def windowed_out(table, size):
    table.to_stream().to("out", key=Serdes.windowed(Serdes.string, size), value=Serdes.string)


def sessions_out(table):
    table.to_stream().to("out", key=Serdes.session_windowed(Serdes.string), value=Serdes.string)


def time_store(windows, size):
    return Stores.window("s", windows.retention, size, cached=_cached[-1])


def session_store(windows):
    """A cached one is kept long: what Kafka's cache shows past the retention is not what its store has (docs/differences.md)."""
    return Stores.session("s", 10**7 if _cached[-1] else windows.retention, cached=_cached[-1])


@family
def aggregate(builder, random):
    grouped(builder).aggregate(str, append, store=kv("s"), value=Serdes.string).to_stream().to("out", **TEXT)


@family
def rekeyed_reduce(builder, random):
    stream = builder.stream("a", **TEXT).filter(lambda key, value: value is not None)
    regrouped = stream.group_by(lambda key, value: value[:1], **TEXT)
    regrouped.reduce(glue, store=kv("s")).to_stream().to("out", **TEXT)


@family
def tumbling(builder, random):
    windows = TimeWindows(10, grace=random.choice((0, 3, 7)))
    table = (
        grouped(builder).windowed_by(windows).aggregate(str, append, store=time_store(windows, 10), value=Serdes.string)
    )
    windowed_out(table, 10)


@family
def hopping(builder, random):
    windows = TimeWindows(10, advance=random.choice((3, 5)), grace=random.choice((0, 4)))
    table = (
        grouped(builder).windowed_by(windows).aggregate(str, append, store=time_store(windows, 10), value=Serdes.string)
    )
    windowed_out(table, 10)


@family
def sliding(builder, random):
    windows = SlidingWindows(10, grace=random.choice((0, 4, 15)))
    store = Stores.window("s", windows.retention + 10, 10, cached=_cached[-1])  # not at the edge: docs/differences.md
    table = grouped(builder).windowed_by(windows).aggregate(str, append, store=store, value=Serdes.string)
    windowed_out(table, 10)


@family
def sessions(builder, random):
    windows = SessionWindows(5, grace=random.choice((0, 4, 10)))
    store = session_store(windows)
    sessions_out(grouped(builder).windowed_by(windows).aggregate(str, append, merge, store=store, value=Serdes.string))


@family
def tumbling_on_close(builder, random):
    windows = TimeWindows(10, grace=random.choice((0, 3, 7)))
    closed = grouped(builder).windowed_by(windows).emit(ON_CLOSE)
    windowed_out(closed.aggregate(str, append, store="s", value=Serdes.string), 10)


@family
def sessions_on_close(builder, random):
    windows = SessionWindows(5, grace=random.choice((0, 4)))
    closed = grouped(builder).windowed_by(windows).emit(ON_CLOSE)
    store = Stores.session("s", 10**7)
    sessions_out(closed.aggregate(str, append, merge, store=store, value=Serdes.string))


@family
def suppressed_until_the_window_closes(builder, random):
    windows = TimeWindows(10, grace=random.choice((0, 3, 7)))
    cached = random.random() < 0.5
    store = Stores.window("s", 10**7 if cached else windows.retention, 10, cached=cached)
    table = grouped(builder).windowed_by(windows).aggregate(str, append, store=store, value=Serdes.string)
    windowed_out(table.suppress(Suppressed.until_window_closes(Buffer.unbounded())), 10)


@family
def suppressed_sessions(builder, random):
    windows = SessionWindows(5, grace=random.choice((0, 4)))
    store = Stores.session("s", 10**7)
    table = grouped(builder).windowed_by(windows).aggregate(str, append, merge, store=store, value=Serdes.string)
    sessions_out(table.suppress(Suppressed.until_window_closes(Buffer.unbounded())))


@family
def suppressed_for_a_time(builder, random):
    table = builder.table("a", **TEXT, store=kv("t"))
    table.suppress(Suppressed.until_time_limit(random.choice((5, 10)), Buffer.unbounded())).to_stream().to(
        "out", **TEXT
    )


@family
def stream_join(builder, random):
    window = JoinWindows(5, grace=random.choice((0, 3, 12)))
    left, right = builder.stream("a", **TEXT), builder.stream("b", **TEXT)
    left.join(right, both, window=window, other_value=Serdes.string, **TEXT).to("out", **TEXT)


@family
def stream_join_of_minutes(builder, random):
    """Stores drop segments and refuse expired rows."""
    window = JoinWindows(100_000, grace=random.choice((0, 60_000)))
    left, right = builder.stream("a", **TEXT), builder.stream("b", **TEXT)
    left.join(right, both, window=window, other_value=Serdes.string, **TEXT).to("out", **TEXT)


stream_join_of_minutes.scale = 20_000
#: each of Kafka's segments is a RocksDB of its own, and takes its time
stream_join_of_minutes.length = 24


@family
def self_join(builder, random):
    stream = builder.stream("a", **TEXT)
    stream.join(stream, both, window=JoinWindows(5, grace=2), other_value=Serdes.string, **TEXT).to("out", **TEXT)


@family
def stream_table_join(builder, random):
    table = builder.table("b", **TEXT, store=kv("t"))
    builder.stream("a", **TEXT).left_join(table, both, **TEXT).to("out", **TEXT)


@family
def versioned_join(builder, random):
    table = builder.table("b", **TEXT, store=Stores.versioned("t", history=random.choice((5, 20, 1000))))
    builder.stream("a", **TEXT).left_join(table, both, **TEXT).to("out", **TEXT)


@family
def versioned_join_with_grace(builder, random):
    table = builder.table("b", **TEXT, store=Stores.versioned("t", history=1000))
    stream = builder.stream("a", **TEXT).filter(lambda key, value: key is not None)
    stream.join(table, both, grace=random.choice((3, 8)), **TEXT).to("out", **TEXT)


@family
def table_join(builder, random):
    left, right = builder.table("a", **TEXT, store=kv("l")), builder.table("b", **TEXT, store=kv("r"))
    left.outer_join(right, both, store=kv("s")).to_stream().to("out", **TEXT)


@family
def table_aggregate(builder, random):
    regrouped = builder.table("a", **TEXT, store=kv("t")).group_by(lambda key, value: (value[:1], value), **TEXT)
    regrouped.aggregate(str, put_in, put_out, store=kv("s"), value=Serdes.string).to_stream().to("out", **TEXT)


@family
def foreign_key_join(builder, random):
    left, right = builder.table("a", **TEXT, store=kv("l")), builder.table("b", **TEXT, store=kv("r"))
    left.left_join(right, both, foreign_key=lambda value: f"key{len(value)}", store=kv("s")).to_stream().to(
        "out", **TEXT
    )


@family
def cogrouped(builder, random):
    one, other = grouped(builder, "a"), grouped(builder, "b")
    together = one.cogroup(append).cogroup(other, take_out)
    together.aggregate(str, store=kv("s"), value=Serdes.string).to_stream().to("out", **TEXT)


@family
def cogrouped_sessions(builder, random):
    one, other = grouped(builder, "a"), grouped(builder, "b")
    windows = SessionWindows(5, grace=random.choice((0, 4)))
    together = one.cogroup(append).cogroup(other, take_out).windowed_by(windows)
    store = session_store(windows)
    sessions_out(together.aggregate(str, merge, store=store, value=Serdes.string))


@family
def windows_behind_an_aggregate(builder, random):
    """Updates of a table, re-keyed, in windows: two steps, each with its time."""
    updates = grouped(builder).aggregate(str, append, store=kv("t"), value=Serdes.string).to_stream()
    moved = updates.select_key(lambda key, value: value[-2:])
    windows = TimeWindows(10, grace=random.choice((0, 5)))
    table = moved.group_by_key(**TEXT).windowed_by(windows)
    windowed_out(table.aggregate(str, append, store=time_store(windows, 10), value=Serdes.string), 10)


def several(key, value):
    """One record becomes one to four, of several keys, some of them twice."""
    if value is None:
        return [(key, None)]
    number = crc32(value.encode()) % 997
    return [(KEYS[(number * (7 * at + 1)) % 29], f"{value}{'.' * at}") for at in range(number % 4 + 1)]


def spread(builder, topic="a"):
    return builder.stream(topic, **TEXT).flat_map(several)


@spread_family
def spread_and_suppressed(builder, random):
    table = spread(builder).to_table(store=kv("t"), **TEXT)
    wait = Suppressed.until_time_limit(random.choice((0, 5, 10)), Buffer.unbounded())
    table.suppress(wait).to_stream().to("out", **TEXT)


@spread_family
def spread_twice_and_suppressed(builder, random):
    """Rows of one record in two steps, which may be in other shards each time."""
    updates = spread(builder).group_by_key(**TEXT).aggregate(str, append, store=kv("t"), value=Serdes.string)
    again = updates.to_stream().flat_map(lambda key, value: [(KEYS[len(value) % 29], value), (key, value)])
    table = again.to_table(store=kv("u"), **TEXT)
    wait = Suppressed.until_time_limit(random.choice((5, 10)), Buffer.unbounded())
    table.suppress(wait).to_stream().to("out", **TEXT)


@spread_family
def spread_windows_on_close(builder, random):
    windows = TimeWindows(10, grace=random.choice((0, 3, 7)))
    closed = spread(builder).group_by_key(**TEXT).windowed_by(windows).emit(ON_CLOSE)
    windowed_out(closed.aggregate(str, append, store="s", value=Serdes.string), 10)


@spread_family
def spread_sessions_until_they_close(builder, random):
    windows = SessionWindows(5, grace=random.choice((0, 4)))
    by_session = spread(builder).group_by_key(**TEXT).windowed_by(windows)
    table = by_session.aggregate(str, append, merge, store=Stores.session("s", 10**7), value=Serdes.string)
    sessions_out(table.suppress(Suppressed.until_window_closes(Buffer.unbounded())))


@spread_family
def spread_stream_join(builder, random):
    window = JoinWindows(5, grace=random.choice((0, 3, 12)))
    left, right = spread(builder), spread(builder, "b")
    left.join(right, both, window=window, other_value=Serdes.string, **TEXT).to("out", **TEXT)


@spread_family
def spread_join_with_grace(builder, random):
    """Rows of one record wait, others change the table that they meet."""
    table = builder.table("b", **TEXT, store=Stores.versioned("t", history=1000))
    stream = spread(builder).filter(lambda key, value: key is not None)
    stream.join(table, both, grace=random.choice((3, 8)), **TEXT).to("out", **TEXT)


@spread_family
def branches_in_several_steps(builder, random):
    """Two sub-topologies that each get rows of every record: the time of one does not depend on the rows of the other."""
    stream = spread(builder)
    stream.group_by_key(**TEXT).aggregate(str, append, store=kv("one"), value=Serdes.string)
    table = stream.select_key(lambda key, value: None if value is None else value[:1]).to_table(store=kv("t"), **TEXT)
    wait = Suppressed.until_time_limit(random.choice((5, 10)), Buffer.unbounded())
    table.suppress(wait).to_stream().to("out", **TEXT)


#: a row that has changed since it was asked about is not answered, in Kafka neither: how often that is so depends on the moment
COLLAPSING = {"foreign_key_join"}


def topics_of(name: str) -> tuple[str, ...]:
    return ("a", "b") if name != "self_join" and ("join" in name or "cogrouped" in name) else ("a",)


def last_of(rows: dict[Any, list[Any]]) -> dict[Any, Any]:
    """The last value of each key; an aggregate of nothing is as good as no row."""
    return {key: updates[-1][0] for key, updates in rows.items() if updates[-1][0]}


def script(random: Random, topics: tuple[str, ...], scale: int, length: int = LENGTH) -> list[tuple[Any, ...]]:
    """Records of many keys: time mostly goes on, some are late by up to some windows, some have no key or no value."""
    now, steps = random.choice((0, 20)), []
    for number in range(length):
        now += random.choice((0, 0, 1, 1, 2, 5, 10, 11))
        late = random.choice((0, 0, 0, 1, 4, 9, 10, 25))
        key = None if random.random() < 0.04 else random.choice(KEYS[: random.choice((3, 29))])
        value = None if random.random() < 0.06 else f"{random.choice('stuv')}{number}"
        steps.append((random.choice(topics), key, value, max(0, now - late) * scale))
    return in_order_of_partition_times(settled(steps, KEYS[0], "s0"))


def partition_of(key: Any, partitions: int) -> int:
    return 0 if key is None else crc32(key.encode()) % partitions


def in_order_of_partition_times(steps: list[tuple[Any, ...]], partitions: int = 1) -> list[tuple[Any, ...]]:
    """Return steps as an epoch takes them: by the time that their partition has reached, topic, partition, offset."""
    reached: dict[tuple[str, int], int] = {}
    placed = []
    for number, step in enumerate(steps):
        place = step[0], partition_of(step[1], partitions)
        reached[place] = max(reached.get(place, -1), step[3])
        placed.append((reached[place], *place, number, step))
    return [step for *_, step in sorted(placed, key=lambda row: row[:4])]


def by_key(rows: Any) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for key, value, timestamp, *_ in rows:
        found.setdefault(key, []).append((value, timestamp))
    return found
