"""Cases about time, each a rule of docs/time.md: a topology, what happens, what comes out. Run by the test driver and by Spark.

What happens is a list of steps:

    sent(key, value, timestamp, partition=0, topic="in")   a record is written
    settled(*rows, **dropped)   epochs are run until nothing is due; then exactly these rows are new in "out" (value, timestamp; in any
                                order), and so much was dropped by now, by reason
    waited(ms)                  the wall clock moves on
    restarted()                 the application ends and starts again (the test driver goes on)

All have four shards and two partitions; A, B, C and D are keys of four different shards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from penstock import (
    EmitStrategy,
    JoinWindows,
    LatePolicy,
    Processor,
    PunctuationType,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    Suppressed,
    TimeWindows,
    WatermarkStrategy,
)
from penstock.state.shards import shard_of

SHARDS, PARTITIONS = 4, 2
A, B, C, D = (
    next(key for key in (f"{name}{n}" for n in count()) if shard_of(key.encode(), SHARDS, 0) == shard)
    for shard, name in enumerate("abcd")
)
TEXT = {"key": Serdes.string, "value": Serdes.string}


class Sent(NamedTuple):
    key: str
    value: str
    timestamp: int
    partition: int = 0
    topic: str = "in"


class Settled(NamedTuple):
    rows: tuple[tuple[str, int], ...]
    dropped: dict[str, int]


class Waited(NamedTuple):
    ms: int


class Restarted(NamedTuple):
    pass


def sent(key: str, timestamp: int, partition: int = 0, *, value: str | None = None, topic: str = "in") -> Sent:
    return Sent(key, value or f"{key[0]}{timestamp}", timestamp, partition, topic)


def settled(*rows: tuple[str, int], **dropped: int) -> Settled:
    return Settled(rows, dropped)


waited, restarted = Waited, Restarted


@dataclass
class TimeCase:
    name: str
    build: Callable[[Any], Any]
    steps: list[Any]
    config: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ("in",)


CASES: list[TimeCase] = []


def case(
    build: Callable[..., Any], *steps: Any, inputs: tuple[str, ...] = ("in",), **config: Any
) -> Callable[..., Any]:
    """Put a case into `CASES`; the function it decorates only names it."""

    def put(named: Callable[[], None]) -> Callable[[], None]:
        CASES.append(TimeCase(named.__name__, build, list(steps), config, inputs))
        return named

    return put


# ---- topologies: each shows in "out" what comes out of one node, as text


def joined(key: Any, value: Any, aggregate: str) -> str:
    return f"{aggregate}{value} "


def windows(
    grace: int = 0, emit: EmitStrategy = EmitStrategy.on_window_close, windows: Any = None, **source: Any
) -> Callable[[Any], Any]:
    def build(builder: Any) -> None:
        grouped = builder.stream("in", **TEXT, **source).group_by_key()
        windowed = grouped.windowed_by(windows or TimeWindows(10, grace=grace)).emit(emit)
        merger = {"merger": lambda key, one, other: one + other} if isinstance(windows, SessionWindows) else {}
        table = windowed.aggregate(str, joined, **TEXT, **merger)
        table.to_stream(key=lambda window, value: window.key).to("out", **TEXT)

    return build


ON_UPDATE = EmitStrategy.on_window_update


def suppressed(builder: Any) -> None:
    windowed = builder.stream("in", **TEXT).group_by_key().windowed_by(TimeWindows(10))
    last = windowed.aggregate(str, joined, **TEXT).suppress(Suppressed.until_window_closes())
    last.to_stream(key=lambda window, value: window.key).to("out", **TEXT)


def left_join(builder: Any) -> None:
    left, right = builder.stream("in", **TEXT), builder.stream("other", **TEXT)
    left.left_join(right, lambda one, other: f"{one}+{other}", window=JoinWindows(10), **TEXT).to("out", **TEXT)


def joins_with(late: LatePolicy) -> Callable[[Any], Any]:
    def build(builder: Any) -> None:
        left, right = builder.stream("in", **TEXT, late=late), builder.stream("other", **TEXT)
        window = JoinWindows(10, grace=10)
        left.join(right, lambda one, other: f"{one}+{other}", window=window, **TEXT).to("out", **TEXT)

    return build


class Timed(Processor):
    """Sets a timer 10 ms after each record, and a punctuator every 10 ms of stream time."""

    def init(self, context: Any) -> None:
        self.context = context
        context.schedule(10, PunctuationType.STREAM_TIME, self.tick, start=10)

    def process(self, record: Any) -> None:
        self.context.timers.register_event_time(record.key, record.timestamp + 10)

    def on_timer(self, timestamp: int, key: str, context: Any) -> None:
        context.forward(Record(key, f"{key[0]} timer", timestamp))

    def tick(self, timestamp: int) -> None:
        if self.context.shard == 1:  # the others have their own, which would come out alike
            self.context.forward(Record(B, "tick", timestamp))


def processor(builder: Any) -> None:
    builder.add_state_store(Stores.timers("timers", key=Serdes.string))
    builder.stream("in", **TEXT).process(Timed, stores=["timers"]).to("out", **TEXT)


class Late(Processor):
    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(f"{record.value} {'late' if self.context.is_late else 'in time'}"))


def asks_whether_late(builder: Any) -> None:
    builder.stream("in", **TEXT, watermark=WatermarkStrategy.bounded(5)).process(Late).to("out", **TEXT)


def cascade(builder: Any) -> None:
    """Windows of windows, behind a new key: results are as old as their window, and must not be late for that."""
    windowed = builder.stream("in", **TEXT).group_by_key().windowed_by(TimeWindows(10))
    closed = windowed.emit(EmitStrategy.on_window_close).aggregate(str, joined, **TEXT).to_stream()
    again = closed.map(lambda window, value: ("all", value)).group_by_key(**TEXT).windowed_by(TimeWindows(10))
    last = again.emit(EmitStrategy.on_window_close).aggregate(str, joined, **TEXT).to_stream()
    last.to("out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.string)


def says(key: Any, value: str, timestamp: int) -> int | None:
    """The user's own watermark: records that begin with "at" say the time."""
    return int(value[2:]) if value.startswith("at") else None


# ---- time reaches every shard


@case(
    windows(),
    sent(A, 1), sent(B, 5), settled(),
    sent(B, 12), settled(("a1 ", 1), ("b5 ", 5)),
)  # fmt: skip
def windows_of_a_key_that_is_quiet_close_when_another_key_moves_time() -> None: ...


@case(
    windows(windows=SessionWindows(5)),
    sent(A, 1), sent(A, 4), settled(),
    sent(B, 30), settled(("a1 a4 ", 4)),
)  # fmt: skip
def sessions_of_a_quiet_key_close() -> None: ...


@case(
    windows(windows=SlidingWindows(5)),
    sent(A, 20), settled(),
    sent(B, 40), settled(("a20 ", 20)),
)  # fmt: skip
def sliding_windows_of_a_quiet_key_close() -> None: ...


@case(
    suppressed,
    sent(A, 1), sent(A, 2), sent(B, 3), settled(),
    sent(B, 12), settled(("a1 a2 ", 2), ("b3 ", 3)),
    sent(C, 25), settled(("b12 ", 12)),
)  # fmt: skip
def suppressed_results_of_a_quiet_key_come_out_once() -> None: ...


@case(
    left_join,
    sent(A, 1), sent(B, 2, topic="other"), settled(),
    sent(C, 12, topic="other"), settled(("a1+None", 1)),
    inputs=("in", "other"),
)  # fmt: skip
def unmatched_rows_of_a_quiet_key_come_out() -> None: ...


@case(
    processor,
    sent(A, 1), settled(),
    sent(C, 12), settled(("a timer", 11), ("tick", 12)),
)  # fmt: skip
def timers_and_punctuators_of_a_quiet_shard_fire() -> None: ...


@case(
    cascade,
    sent(A, 1), sent(B, 2), sent(C, 3), settled(),
    sent(D, 35), settled(("a1  b2  c3  ", 3)),
)  # fmt: skip
def results_of_windows_are_not_late_for_the_windows_behind_them() -> None: ...


# ---- the slowest partition, and idle ones


@case(
    windows(),
    sent(A, 1, 0), sent(B, 1, 1), settled(),
    sent(A, 50, 0), settled(),
    sent(B, 7, 1), settled(),
    sent(B, 11, 1), settled(("a1 ", 1), ("b1 b7 ", 7)),
)  # fmt: skip
def the_slowest_partition_sets_the_time() -> None: ...


@case(
    windows(),
    sent(A, 1, 0), sent(B, 2, 1), settled(),
    sent(A, 50, 0), settled(),
    waited(4_999), settled(),
    sent(A, 51, 0), settled(),
    waited(1), settled(("a1 ", 1), ("b2 ", 2)),
    sent(B, 3, 1), settled(late_window=1),
    sent(B, 60, 1), settled(late_window=1),
    sent(A, 62, 0), settled(("a50 a51 ", 51), late_window=1),
)  # fmt: skip
def a_quiet_partition_is_not_waited_for_and_its_closed_windows_stay_closed() -> None: ...


@case(
    windows(emit=ON_UPDATE),
    sent(A, 1, 0), sent(B, 2, 1), settled(("a1 ", 1), ("b2 ", 2)),
    sent(A, 50, 0), settled(("a50 ", 50)),
    waited(6_000), settled(),
    sent(B, 3, 1), settled(("b2 b3 ", 3)),
)  # fmt: skip
def a_partition_that_comes_back_goes_on_where_it_was_if_nothing_is_final() -> None: ...


@case(
    windows(),
    sent(A, 1), settled(),
    waited(3_600_000), settled(),
    sent(A, 5), settled(),
    sent(A, 10), settled(("a1 a5 ", 5)),
)  # fmt: skip
def without_idle_after_the_time_of_a_quiet_application_stands_still() -> None: ...


@case(
    windows(watermark=WatermarkStrategy.monotonic().idle_after(8)),
    sent(A, 1), sent(B, 3, 1), settled(),
    waited(6), settled(),
    waited(2), settled(("a1 ", 1), ("b3 ", 3)),
    sent(A, 4), settled(late_window=1),
    sent(A, 12), settled(late_window=1),
    waited(7), settled(late_window=1),
    waited(1), settled(("a12 ", 12), late_window=1),
)  # fmt: skip
def with_idle_after_the_windows_of_a_quiet_application_close_by_the_wall_clock() -> None: ...


# ---- watermark strategies


@case(
    windows(watermark=WatermarkStrategy.bounded(20)),
    sent(A, 5), sent(A, 29), sent(A, 6), settled(),
    sent(B, 30), settled(("a5 a6 ", 6)),
    sent(A, 7), settled(late_window=1),
)  # fmt: skip
def bounded_time_stays_behind_the_newest_record() -> None: ...


@case(
    windows(watermark=WatermarkStrategy.custom(says)),
    sent(A, 5), sent(B, 100), sent(A, 6), settled(),
    sent(C, 100, value="at10"), settled(("a5 a6 ", 6)),
    sent(A, 7), settled(late_window=1),
)  # fmt: skip
def time_is_what_the_users_function_says() -> None: ...


@case(
    asks_whether_late,
    sent(A, 10, 0), sent(B, 10, 1), settled(("a10 in time", 10), ("b10 in time", 10)),
    sent(A, 30, 0), sent(B, 16, 1), settled(("a30 in time", 30), ("b16 in time", 16)),
    sent(A, 12, 0), sent(A, 10, 0), settled(("a12 in time", 12), ("a10 late", 10)),
)  # fmt: skip
def a_record_is_late_if_the_combined_watermark_has_passed_it() -> None: ...


# ---- late records


@case(
    windows(grace=10, emit=ON_UPDATE, late=LatePolicy.accept),
    sent(A, 5), sent(A, 19), sent(A, 6), settled(("a5 a6 ", 6), ("a19 ", 19)),
    sent(A, 20), sent(A, 7), settled(("a20 ", 20), late_window=1),
)  # fmt: skip
def late_records_are_accepted_within_the_grace() -> None: ...


@case(
    windows(grace=10, emit=ON_UPDATE, late=LatePolicy.drop),
    sent(A, 5), sent(A, 9), sent(A, 6), settled(("a5 a9 a6 ", 9)),
    sent(A, 10), sent(A, 7), settled(("a10 ", 10), late_window=1),
)  # fmt: skip
def late_records_of_a_source_that_drops_them_have_no_grace() -> None: ...


@case(
    windows(grace=10, emit=ON_UPDATE, late=LatePolicy.dead_letter),
    sent(A, 5), sent(A, 19), sent(A, 6), settled(("a5 a6 ", 6), ("a19 ", 19)),
    sent(A, 25), sent(A, 7), settled(("a25 ", 25), ("a7", 7), late_window=1),
    dead_letter_topic="out",
)  # fmt: skip
def late_records_go_to_the_dead_letter_topic_after_the_grace() -> None: ...


@case(
    joins_with(LatePolicy.drop),
    sent(A, 5, topic="other"), sent(A, 6), sent(A, 16), sent(A, 4), settled(("a6+a5", 6), late_join=1),
    sent(A, 8), settled(("a8+a5", 8), late_join=1),
    inputs=("in", "other"),
)  # fmt: skip
def late_records_of_a_source_that_drops_them_do_not_join() -> None: ...


@case(
    joins_with(LatePolicy.dead_letter),
    sent(A, 5, topic="other"), sent(A, 6), sent(A, 16), sent(A, 4), settled(("a6+a5", 6), ("a4+a5", 5)),
    sent(A, 26), sent(A, 5, value="lost"), settled(("lost", 5), late_join=1),
    inputs=("in", "other"), dead_letter_topic="out",
)  # fmt: skip
def late_records_of_a_join_go_to_the_dead_letter_topic() -> None: ...


# ---- restarts


@case(
    windows(),
    sent(A, 1, 0), sent(B, 2, 1), settled(),
    sent(A, 50, 0), settled(),
    restarted(), settled(),
    sent(C, 3, 0), settled(),
    waited(5_000), settled(("a1 ", 1), ("b2 ", 2), ("c3 ", 3)),
    restarted(), settled(),
    sent(D, 4, 0), settled(late_window=1),
)  # fmt: skip
def a_restart_does_not_set_clocks_back() -> None: ...
