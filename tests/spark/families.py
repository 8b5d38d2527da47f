"""Topologies of what the conformance topologies leave out: mostly what Kafka Streams does not have, so that no oracle could judge it.

`FAMILIES` by name, each a function of a builder, like `TOPOLOGIES` of the conformance suite. All functions here show the order of
what they were given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock import (
    JoinWindows,
    Processor,
    PunctuationType,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    TimeWindows,
)

FAMILIES: dict[str, Callable[[Any], Any]] = {}
#: settings that a family needs
CONFIG: dict[str, dict[str, Any]] = {}
TEXT = {"key": Serdes.string, "value": Serdes.string}
WINDOWED = {"key": Serdes.windowed(Serdes.string, 20), "value": Serdes.string}


def family(**config: Any) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Put a function into `FAMILIES`."""

    def put(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        FAMILIES[function.__name__] = function
        CONFIG[function.__name__] = config
        return function

    return put


def append(key, value, aggregate):
    return f"{aggregate},{value}"[-80:]


def take_out(key, value, aggregate):
    return f"{aggregate},-{value}"[-80:]


def glue(one, other):
    return f"{one},{other}"[-80:]


def both(left, right):
    return f"{left}/{right}"


def merge(key, one, other):
    return f"({one}|{other})"[-120:]


def kv(name, value=Serdes.string, **how):
    return Stores.key_value(name, key=Serdes.string, value=value, **how)


# ---- caching off: every update is forwarded, in order


@family()
def every_update_of_an_aggregate(builder):
    grouped = builder.stream("in", **TEXT).group_by_key()
    grouped.aggregate(str, append, store=kv("s", cached=False)).to_stream().to("out", **TEXT)


@family()
def every_update_of_a_rekeyed_aggregate(builder):
    grouped = builder.stream("in", **TEXT).group_by(lambda key, value: value, **TEXT)
    grouped.aggregate(str, append, store=kv("s", cached=False)).to_stream().to("out", **TEXT)


@family()
def every_update_of_windows(builder):
    grouped = builder.stream("in", **TEXT).filter(lambda key, value: value is not None).group_by_key()
    tumbling = Stores.window("tumbling", 100, 20, cached=False, **TEXT)
    hops = grouped.windowed_by(TimeWindows(20, advance=10, grace=30)).aggregate(str, append, store=tumbling)
    hops.to_stream().to("hops", **WINDOWED)
    slides = Stores.window("sliding", 100, 20, cached=False, **TEXT)
    grouped.windowed_by(SlidingWindows(20, grace=30)).aggregate(str, append, store=slides).to_stream().to(
        "slides", **WINDOWED
    )
    sessions = grouped.windowed_by(SessionWindows(15, grace=30))
    merged = sessions.aggregate(str, append, merge, store=Stores.session("sessions", 100, cached=False, **TEXT))
    merged.to_stream().to("sessions", key=Serdes.session_windowed(Serdes.string), value=Serdes.string)


@family()
def windows_after_an_aggregate(builder):
    """A step of the lanes that has no clock, before one that has."""
    counted = builder.stream("in", **TEXT).group_by_key().reduce(glue, store=kv("s", cached=False))
    moved = counted.to_stream().select_key(lambda key, value: value[-3:])
    windowed = moved.group_by_key(**TEXT).windowed_by(TimeWindows(20, grace=10))
    windowed.aggregate(str, append, store=Stores.window("w", 40, 20, cached=False, **TEXT)).to_stream().to(
        "out", **WINDOWED
    )


@family()
def every_update_of_table_joins(builder):
    a, b, c = (builder.table(topic, store=kv(f"{topic}-rows", cached=False), **TEXT) for topic in "abc")
    joined = a.outer_join(b, both, store=kv("outer", cached=False))
    joined.to_stream().to("outer", **TEXT)
    a.left_join(c, both, foreign_key=lambda value: value, store=kv("foreign", cached=False)).to_stream().to(
        "foreign", **TEXT
    )
    regrouped = a.group_by(lambda key, value: (value, key), **TEXT)
    by_value = regrouped.aggregate(str, append, take_out, store=kv("by-value", cached=False))
    by_value.to_stream().to("by-value", **TEXT)


# ---- processors


class Running(Processor):
    """Keeps what it has seen, tells the place and headers of each record."""

    def init(self, context):
        self.context, self.store = context, context.store("seen")

    def process(self, record):
        if record.key is None:
            return
        total = append(record.key, record.value, self.store.get(record.key) or "")
        self.store.put(record.key, total)
        place = self.context.record_metadata
        headers = (*record.headers, ("from", f"{place.partition}@{place.offset}".encode()))
        self.context.forward(record.with_value(total).with_headers(headers))


@family()
def a_processor_with_a_store(builder):
    builder.add_state_store(kv("seen"))
    builder.stream("in", **TEXT).process(Running, stores=["seen"]).to("out", **TEXT)


class Counting(Processor):
    """Forwards at regular stream time what has come since."""

    def init(self, context):
        self.context, self.store = context, context.store("seen")
        context.schedule(50, PunctuationType.STREAM_TIME, self.tell)

    def process(self, record):
        if record.key is not None:
            self.store.put(record.key, (self.store.get(record.key) or 0) + 1)

    def tell(self, timestamp):
        for key, count in list(self.store.all()):
            self.context.forward(Record(key, count, timestamp))
            self.store.delete(key)


@family()
def a_punctuator_of_stream_time(builder):
    builder.add_state_store(kv("seen", Serdes.int64))
    builder.stream("in", **TEXT).process(Counting, stores=["seen"]).to("out", key=Serdes.string, value=Serdes.int64)


class Reminding(Processor):
    """Registers a timer for each record, and takes back the one before."""

    def init(self, context):
        self.context, self.store = context, context.store("last")

    def process(self, record):
        if record.key is None:
            return
        before = self.store.get(record.key)
        if before is not None and record.value == "ant":
            self.context.timers.delete_event_time(record.key, before)
        self.store.put(record.key, record.timestamp + 40)
        self.context.timers.register_event_time(record.key, record.timestamp + 40)

    def on_timer(self, timestamp, key, context):
        context.forward(Record(key, f"{self.store.get(key) - timestamp}", timestamp))


@family()
def timers_of_event_time(builder):
    builder.add_state_store(kv("last", Serdes.int64))
    builder.add_state_store(Stores.timers("timers", key=Serdes.string))
    builder.stream("in", **TEXT).process(Reminding, stores=["last", "timers"]).to("out", **TEXT)


class Moving(Processor):
    """Reads and writes any key: all records are in one shard."""

    def init(self, context):
        self.context, self.store = context, context.store("accounts")

    def process(self, record):
        if record.value is None or record.key is None:
            return
        for key, amount in (record.key, -1), (record.value, 1):
            self.store.put(key, (self.store.get(key) or 0) + amount)
        self.context.forward(record.with_value(f"{self.store.get(record.key)} {self.store.get(record.value)}"))


@family()
def a_shared_store(builder):
    builder.add_state_store(Stores.shared("accounts", key=Serdes.string, value=Serdes.int64))
    builder.stream("in", **TEXT).process(Moving, stores=["accounts"]).to("out", **TEXT)


class Noting(Processor):
    """Adds to a store that a processor of another step adds to, and tells what is there."""

    def init(self, context):
        self.context, self.store = context, context.store("notes")

    def process(self, record):
        if record.key is None:
            return
        self.store.put(record.key, record.value, record.timestamp)
        found = [value for _, value in self.store.fetch(record.key, record.timestamp - 20, record.timestamp + 20)]
        self.context.forward(record.with_value(",".join(map(str, found))[-60:]))


@family()
def a_store_of_two_steps(builder):
    """The second processor is behind a re-key and writes into the same store, which numbers its rows."""
    builder.add_state_store(Stores.window("notes", 10**6, 20, retain_duplicates=True, **TEXT))
    stream = builder.stream("in", **TEXT)
    stream.process(Noting, stores=["notes"]).to("first", **TEXT)
    moved = stream.select_key(lambda key, value: value).repartition(name="moved", **TEXT)
    moved.process(Noting, stores=["notes"]).to("second", **TEXT)


@family()
def tables_that_meet_again(builder):
    """Several stores of the first step are read by different later steps."""
    a, b = (builder.table(topic, store=kv(f"{topic}-rows", cached=False), **TEXT) for topic in "ab")
    a.outer_join(b, both).to_stream().to("outer", **TEXT)
    a.join(b, both, foreign_key=lambda value: value, store=kv("ab", cached=False)).to_stream().to("ab", **TEXT)
    b.left_join(a, both, foreign_key=lambda value: value, store=kv("ba", cached=False)).to_stream().to("ba", **TEXT)


class Looking(Processor):
    """Reads another node's store, any key, as it was at the last barrier."""

    def init(self, context):
        self.context = context

    def process(self, record):
        rows = self.context.view("counts")
        found = None if record.value is None else rows.get(record.value)
        self.context.forward(record.with_value(f"{record.value}={found} of {rows.approximate_num_entries()}"))


@family()
def records_that_come_back_to_their_tables(builder):
    words = builder.stream("a", **TEXT).filter(lambda key, value: key is not None and value is not None)
    table = builder.table("b", **TEXT, store=kv("met-twice"))
    versions = words.to_table(store=Stores.versioned("versions", history=1000, **TEXT), **TEXT)
    once = words.left_join(table, both, **TEXT)
    again = once.select_key(lambda key, value: f"k{len(value) % 3}").left_join(table, both, **TEXT)
    again.to("again", **TEXT)
    words.select_key(lambda key, value: f"k{len(value) % 3}").left_join(versions, both, **TEXT).to(
        "versions-met", **TEXT
    )


@family()
def both_sides_of_a_re_key(builder):
    words = builder.stream("a", **TEXT).filter(lambda key, value: key is not None and value is not None)
    others = words.select_key(lambda key, value: f"k{len(value) % 3}")
    window = JoinWindows(5, grace=3)
    words.outer_join(others, both, window=window, other_value=Serdes.string, **TEXT).to("pairs", **TEXT)
    merged = words.merge(others.repartition(**TEXT, name="others"))
    merged.group_by_key(**TEXT).aggregate(str, append, store=kv("merged"), value=Serdes.string).to_stream().to(
        "merged-updates", **TEXT
    )
    table = words.to_table(store=kv("words"), **TEXT)
    groups = table.group_by(lambda key, value: (f"k{len(value) % 3}", value), **TEXT)
    grouped = groups.aggregate(str, append, take_out, store=kv("grouped"), value=Serdes.string)
    table.left_join(grouped, both).to_stream().to("with-groups", **TEXT)


@family()
def a_view_of_the_last_barrier(builder):
    builder.stream("a", **TEXT).group_by_key().count(store=kv("counts", Serdes.int64))
    builder.stream("b", **TEXT).process(Looking).to("out", **TEXT)


# ---- stores


@family()
def deduplicated(builder):
    by = lambda key, value: None if value is None else len(value)  # noqa: E731
    builder.stream("in", **TEXT).deduplicate(by=by, within=30).to("out", **TEXT)


@family()
def a_table_of_few_rows(builder):
    few = Stores.lru("few", 2, key=Serdes.string, value=Serdes.int64)
    counted = builder.stream("in", **TEXT).group_by_key().count(store=few)
    counted.to_stream().to("out", key=Serdes.string, value=Serdes.int64)


@family()
def rows_that_expire(builder):
    grouped = builder.stream("in", **TEXT).group_by_key()
    grouped.aggregate(str, append, store=kv("s", ttl=60)).to_stream().to("out", **TEXT)


@family()
def a_table_that_is_kept_in_its_topic(builder):
    """The source topic serves as the changelog."""
    rows = builder.table("table", store=kv("rows"), **TEXT)
    builder.stream("in", **TEXT).select_key(lambda key, value: value).left_join(rows, both).to("out", **TEXT)
    return builder.build(optimize="all")


class Upper(Processor):
    """Keeps a topic in a global store, changed on the way."""

    def init(self, context):
        self.store = context.store("loud")

    def process(self, record):
        if record.key is not None:
            self.store.put(record.key, record.value and record.value.upper())


class Asking(Processor):
    """Reads the global store."""

    def init(self, context):
        self.context, self.store = context, context.store("loud")

    def process(self, record):
        self.context.forward(record.with_value(f"{record.value}:{record.value and self.store.get(record.value)}"))


@family()
def a_global_store(builder):
    builder.add_global_store(kv("loud", logged=False), "global", Upper, **TEXT)
    builder.stream("in", **TEXT).process(Asking).to("out", **TEXT)


# ---- sources and sinks


def told(record):
    """Find the time in the key's place among the words; some records have none."""
    return -1 if record.value == b"ant" or record.value == "ant" else record.timestamp + len(record.value or "") * 7


def never_back(record, partition_time):
    return max(record.timestamp, partition_time - 10)


@family()
def extracted_times(builder):
    first = builder.stream("a", timestamp=told, **TEXT)
    second = builder.stream("b", timestamp=never_back, **TEXT)
    first.join(second, both, window=JoinWindows(20, grace=30), **TEXT).to("out", **TEXT)
    counted = (
        second.group_by_key()
        .windowed_by(TimeWindows(20, grace=10))
        .count(store=Stores.window("w", 40, 20, cached=False))
    )
    counted.to_stream().to("counts", key=Serdes.windowed(Serdes.string, 20), value=Serdes.int64)


@family()
def several_partitions_of_a_sink(builder):
    def choose(topic, key, value, partitions):
        return None if value is None else [len(value) % partitions, 0] if value == "ibis" else len(value) % partitions

    builder.stream("in", **TEXT).to("out", partitioner=choose, **TEXT)


@family(on_processing_error="skip")
def failures_that_are_skipped(builder):
    upper = builder.stream("in", **TEXT).map_values(str.upper)
    upper.group_by_key().reduce(glue, store=kv("s")).to_stream().to("out", **TEXT)


@family(on_processing_error="dead_letter", dead_letter_topic="letters")
def dead_letters(builder):
    builder.stream("in", **TEXT).select_key(lambda key, value: value[:2]).group_by_key().count(store="counts")
