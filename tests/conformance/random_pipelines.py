"""Random topologies: three stages of any operator family behind each other, with re-keys, spreads and branches between them.

Every stage takes a stream of text and gives one; its functions show the order of what they were given.
"""

from random import Random
from typing import Any
from zlib import crc32

from operator_families import KEYS, TEXT, append, both, glue, merge, take_out

from penstock import (
    Buffer,
    EmitStrategy,
    JoinWindows,
    Processor,
    PunctuationType,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    Suppressed,
    TimeWindows,
)

STAGES: dict[str, Any] = {}
#: what a punctuator of each shard gives out has no order among shards: it may only come last
LAST: dict[str, Any] = {}


def stage(function):
    STAGES[function.__name__] = function
    return function


def number_of(value: str) -> int:
    return crc32(value.encode()) % 1000


def key_of(value: str) -> str:
    return KEYS[number_of(value) % 7]


def plain(table: Any) -> Any:
    """Return the updates of a table of windows under plain keys."""
    return table.to_stream().map(
        lambda key, value: (
            KEYS[(number_of(key.key) + key.start) % 29],
            f"{key.key[3:]}@{key.start}-{key.end}:{value}"[-60:],
        )
    )


def table_of(stream: Any, store: Any) -> Any:
    return stream.filter(lambda key, value: key is not None).to_table(store=store, **TEXT)


def kv(name: str) -> Any:
    return Stores.key_value(name, cached=False, **TEXT)


@stage
def re_keyed(stream, builder, random, name):
    return stream.filter(lambda key, value: value is not None).select_key(lambda key, value: key_of(value))


@stage
def spread(stream, builder, random, name):
    def several(key, value):
        if value is None:
            return [(key, None)]
        return [
            (KEYS[(number_of(value) * (at + 1)) % 29], f"{value}{'.' * at}"[-60:]) for at in range(number_of(value) % 4)
        ]

    return stream.flat_map(several)


@stage
def two_branches(stream, builder, random, name):
    some = stream.filter(lambda key, value: value is not None and number_of(value) % 3 == 0)
    others = stream.filter(lambda key, value: value is not None and number_of(value) % 3 > 0)
    return some.merge(others.select_key(lambda key, value: key_of(value)))


@stage
def aggregated(stream, builder, random, name):
    return stream.group_by_key(**TEXT).aggregate(str, append, store=kv(name), value=Serdes.string).to_stream()


@stage
def reduced(stream, builder, random, name):
    return stream.group_by_key(**TEXT).reduce(glue, store=kv(name)).to_stream()


@stage
def in_time_windows(stream, builder, random, name):
    windows = TimeWindows(10, advance=random.choice((10, 5, 3)), grace=random.choice((0, 3, 15)))
    store = Stores.window(name, windows.retention, 10, cached=False)
    return plain(
        stream.group_by_key(**TEXT).windowed_by(windows).aggregate(str, append, store=store, value=Serdes.string)
    )


@stage
def in_sliding_windows(stream, builder, random, name):
    windows = SlidingWindows(10, grace=random.choice((0, 4, 15)))
    store = Stores.window(name, windows.retention, 10, cached=False)
    return plain(
        stream.group_by_key(**TEXT).windowed_by(windows).aggregate(str, append, store=store, value=Serdes.string)
    )


@stage
def in_sessions(stream, builder, random, name):
    windows = SessionWindows(5, grace=random.choice((0, 4, 10)))
    store = Stores.session(name, windows.retention, cached=False)
    by_session = stream.group_by_key(**TEXT).windowed_by(windows)
    return plain(by_session.aggregate(str, append, merge, store=store, value=Serdes.string))


@stage
def closed_windows(stream, builder, random, name):
    windows = TimeWindows(10, grace=random.choice((0, 3, 7)))
    closed = stream.group_by_key(**TEXT).windowed_by(windows).emit(EmitStrategy.on_window_close)
    return plain(closed.aggregate(str, append, store=name, value=Serdes.string))


@stage
def closed_sessions(stream, builder, random, name):
    windows = SessionWindows(5, grace=random.choice((0, 4)))
    closed = stream.group_by_key(**TEXT).windowed_by(windows).emit(EmitStrategy.on_window_close)
    return plain(closed.aggregate(str, append, merge, store=name, value=Serdes.string))


@stage
def final_windows(stream, builder, random, name):
    windows = TimeWindows(10, grace=random.choice((0, 3, 7)))
    store = Stores.window(name, windows.retention, 10, cached=random.random() < 0.5)
    table = stream.group_by_key(**TEXT).windowed_by(windows).aggregate(str, append, store=store, value=Serdes.string)
    return plain(table.suppress(Suppressed.until_window_closes(Buffer.unbounded())))


@stage
def held_back(stream, builder, random, name):
    wait = Suppressed.until_time_limit(random.choice((0, 5, 10)), Buffer.unbounded())
    return table_of(stream, kv(name)).suppress(wait).to_stream()


@stage
def joined_with_a_stream(stream, builder, random, name):
    window = JoinWindows(5, grace=random.choice((0, 3, 12)))
    join = getattr(stream, random.choice(("join", "left_join", "outer_join")))
    return join(other(builder, "b"), both, window=window, other_value=Serdes.string, **TEXT)


@stage
def joined_with_a_table(stream, builder, random, name):
    return stream.left_join(table_of(other(builder, "b"), kv(name)), both, **TEXT)


@stage
def joined_with_versions(stream, builder, random, name):
    table = table_of(other(builder, "b"), Stores.versioned(name, history=random.choice((20, 1000))))
    with_key = stream.filter(lambda key, value: key is not None)
    return with_key.join(table, both, grace=random.choice((0, 3, 8)) if table is not None else None, **TEXT)


@stage
def joined_with_a_table_of_itself(stream, builder, random, name):
    own = stream.filter(lambda key, value: value is not None).select_key(lambda key, value: key_of(value))
    table = own.group_by_key(**TEXT).reduce(glue, store=kv(name))
    return stream.left_join(table, both, **TEXT)


@stage
def joined_with_itself_re_keyed(stream, builder, random, name):
    own = stream.filter(lambda key, value: value is not None).select_key(lambda key, value: key_of(value))
    join = getattr(stream, random.choice(("join", "left_join", "outer_join")))
    return join(own, both, window=JoinWindows(5, grace=random.choice((0, 12))), other_value=Serdes.string, **TEXT)


@stage
def merged_with_itself_re_keyed(stream, builder, random, name):
    own = stream.filter(lambda key, value: value is not None).select_key(lambda key, value: key_of(value))
    return stream.merge(own.repartition(**TEXT, name=name))


@stage
def table_joined_with_its_groups(stream, builder, random, name):
    table = table_of(stream, kv(name))
    groups = table.group_by(lambda key, value: (key_of(value), value), **TEXT)
    grouped = groups.aggregate(str, append, take_out, store=kv(f"{name}-groups"), value=Serdes.string)
    return table.left_join(grouped, lambda one, other: both(one, other)[-60:]).to_stream()


def counted_by_a_processor(stream, builder, random, name):
    class Collect(Processor):
        """Collects the values of a key, and lets them go every ten of stream time."""

        def init(self, context: Any) -> None:
            self.context, self.rows = context, context.store(name)
            context.schedule(10, PunctuationType.STREAM_TIME, self.let_go)

        def process(self, record: Any) -> None:
            if record.key is not None:
                self.rows.put(record.key, f"{self.rows.get(record.key) or ''},{record.value}"[-60:])

        def let_go(self, timestamp: int) -> None:
            for key, value in list(self.rows.all()):
                self.context.forward(Record(key, value, timestamp))
                self.rows.delete(key)

    return stream.repartition(**TEXT).process(Collect, stores=[Stores.key_value(name, **TEXT)])


LAST["counted_by_a_processor"] = counted_by_a_processor


def other(builder: Any, topic: str) -> Any:
    """Return the stream of a topic that several stages may read."""
    streams = builder.__dict__.setdefault("streams_of_tests", {})
    if topic not in streams:
        streams[topic] = builder.stream(topic, **TEXT)
    return streams[topic]


def stages_of(seed: str) -> list[str]:
    """Return the names of the stages of a topology."""
    random = Random(seed)
    stages = [random.choice(list(STAGES)) for _ in range(random.choice((1, 2)))]
    return [*stages, random.choice(list(STAGES | LAST))]


def topics_of(stages: list[str]) -> tuple[str, ...]:
    """Return the topics that a topology reads."""
    with_another = {"joined_with_a_stream", "joined_with_a_table", "joined_with_versions"}
    return ("a", "b") if with_another.intersection(stages) else ("a",)


def build(builder: Any, seed: str) -> None:
    """Build a topology."""
    build_stages(builder, stages_of(seed), seed)


def build_stages(builder: Any, stages: list[str], seed: str) -> None:
    """Build a topology of these stages, with the parameters of a seed."""
    stream, random = other(builder, "a"), Random(f"parameters {seed}")
    for number, name in enumerate(stages):
        stream = (STAGES | LAST)[name](stream, builder, random, f"{name}-{number}")
    stream.repartition(**TEXT).to("out", **TEXT)  # rows of a key leave in one shard
