"""Windows of minutes in default stores (persistent, in segments, cached): outputs, changelogs and contents equal Kafka's.

Scripts like the edges of windows, grace, retention and segments. Without a cache everything is equal, row by row. With one,
two things are not, and both are compared as exactly as they are described in ``docs/differences.md``:

- Kafka's cache shows all it has ever held; ours ends where the oldest segment does,
- Kafka forgets to tell downstream of a session that is merged when its store has expired it.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from compare import Both, assert_equal, run_both
from random_scripts import ended, results
from sequences import append, assert_changelogs_equal, check, empty, merge, scripts

from penstock import Buffer, Suppressed
from penstock.operators.emit import EmitStrategy
from penstock.serde import Serdes
from penstock.state.segments import segment_interval
from penstock.state.spec import StoreKind, Stores, StoreSpec
from penstock.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows

SECOND, MINUTE = 1_000, 60_000
TEXT = {"key": Serdes.string, "value": Serdes.string}
INPUTS = dict.fromkeys(("in", "left", "right"), (Serdes.string, Serdes.string))
LOG = "conformance-kept-changelog"

TUMBLING = {
    "a minute": TimeWindows(MINUTE),
    "a minute, half a minute of grace": TimeWindows(MINUTE, grace=30 * SECOND),
    "five minutes, two of grace": TimeWindows(5 * MINUTE, grace=2 * MINUTE),
}
HOPPING = {
    "two minutes by half a minute": TimeWindows(2 * MINUTE, advance=30 * SECOND, grace=MINUTE),
    "a minute by 40 seconds": TimeWindows(MINUTE, advance=40 * SECOND),
}
SLIDING = {
    "a minute": SlidingWindows(MINUTE, grace=30 * SECOND),
    "no grace": SlidingWindows(150 * SECOND),
    "much grace": SlidingWindows(30 * SECOND, grace=5 * MINUTE),
}
SESSIONS = {
    "half a minute": SessionWindows(30 * SECOND, grace=30 * SECOND),
    "no grace": SessionWindows(2 * MINUTE),
    "much grace": SessionWindows(MINUTE, grace=5 * MINUTE),
}
JOINS = {
    "a minute": JoinWindows(MINUTE, grace=30 * SECOND),
    "before only": JoinWindows(0, before=150 * SECOND),
    "after, much grace": JoinWindows(0, before=-20 * SECOND, after=MINUTE, grace=5 * MINUTE),
}


# ---- topologies


def span(windows: Any) -> int:
    """The length that windows are made of."""
    if isinstance(windows, SessionWindows):
        return windows.gap
    return windows.difference if isinstance(windows, SlidingWindows) else windows.size


def default_store(windows: Any, cached: bool) -> StoreSpec:
    """The store that a name alone would make, and the same without a cache."""
    if isinstance(windows, SessionWindows):
        return Stores.session("kept", windows.retention, cached=cached)
    return Stores.window("kept", windows.retention, span(windows), cached=cached)


def aggregate(windows: Any, spec: StoreSpec | str, *, final: bool = False, on_close: bool = False) -> Any:
    session = isinstance(windows, SessionWindows)

    def topology(builder: Any) -> None:
        windowed = builder.stream("in", **TEXT).group_by_key(**TEXT).windowed_by(windows)
        if on_close:
            windowed = windowed.emit(EmitStrategy.on_window_close)
        functions = (empty, append, merge) if session else (empty, append)
        table = windowed.aggregate(*functions, store=spec, value=Serdes.string)
        if final:
            table = table.suppress(Suppressed.until_window_closes(Buffer.unbounded()))
        key = Serdes.session_windowed(Serdes.string) if session else Serdes.windowed(Serdes.string, span(windows))
        table.to_stream().to("out", key=key, value=Serdes.string)

    return topology


def minutes(seed: str, windows: Any, count: int, **how: Any) -> Iterator[list[Any]]:
    """Scripts around the edges of windows, grace, retention and segments; every other one makes aggregates of None."""
    retention, step = windows.retention, getattr(windows, "advance", 0)
    interval = max(retention // 2, MINUTE)
    size = span(windows) if not isinstance(windows, JoinWindows) else windows.before + windows.after
    distances = (
        size,
        size + 1,
        2 * size,
        step,
        windows.grace,
        retention,
        retention - 1,
        interval,
        retention + interval,
    )
    for values in "stuvwxy", "stuvwxyz":
        for script in scripts(
            f"{seed} {values}",
            distances,
            count=count // 2,
            length=20,
            starts=(0, MINUTE, 601 * SECOND),
            values=values,
            **how,
        ):
            # Kafka cannot look for sessions further than a segment before 0: see the last test
            later = 6 * MINUTE if isinstance(windows, SessionWindows) else 0
            yield [(topic, key, value, time + later, headers) for topic, key, value, time, headers in script]


# ---- comparing what is cached


def row_time(spec: StoreSpec, key: bytes) -> int:
    """The time that a row expires by: the start of a window, the end of a session."""
    return int.from_bytes(key[-16:-8] if spec.kind is StoreKind.SESSION else key[-12:-4], "big")


def newest(both: Both, spec: StoreSpec) -> int:
    return max((row_time(spec, row[0]) for row in both.kafka.output.get(LOG, [])), default=-1)


def compare_cached(both: Both, spec: StoreSpec, *, sliding: bool = False, **how: bool) -> None:
    if spec.kind is StoreKind.SESSION:
        leave_out_what_kafka_forgets(both, spec)
    assert_equal(both, changelogs=False, stores=False)
    assert_changelogs_equal(both, **how)
    assert spec.retention is not None
    interval, kept_for = segment_interval(spec), spec.retention * (2 if spec.kind is StoreKind.SESSION else 1)
    compare_cached_contents(both, spec, (newest(both, spec) - kept_for) // interval * interval, sliding)


def compare_cached_contents(both: Both, spec: StoreSpec, edge: int, sliding: bool = False) -> None:
    """What Kafka shows from ``edge`` on, and nothing older, is there."""
    rows, ours, time = (
        both.kafka.stores["kept"],
        both.penstock.stores["kept"],
        2 if spec.kind is StoreKind.SESSION else 1,
    )
    assert rows is not None
    assert ours is not None
    if any(step[2] == "z" for step in both.script):  # an aggregate of None moves time, and the changelog tells nothing
        assert [row for row in rows if row in ours] == ours, both.script
    elif sliding:  # seen a little longer (docs/differences.md)
        assert [row for row in rows if row in ours] == ours, both.script
        assert [row for row in ours if row[time] >= edge] == [row for row in rows if row[time] >= edge], both.script
    else:
        assert [row for row in rows if row[time] >= edge] == ours, both.script


def leave_out_what_kafka_forgets(both: Both, spec: StoreSpec) -> None:
    """Leave out the tombstones of sessions that are older than the retention at that time."""
    assert spec.retention is not None
    for topic in {"out", LOG} & both.penstock.output.keys():
        left, reached = [], -1
        for row in both.penstock.output[topic]:
            time = int.from_bytes(row[0][-16:-8], "big")
            if row[1] is not None or time > reached - spec.retention:
                left.append(row)
            reached = max(reached, time)
        both.penstock.output[topic] = left


# ---- the tests


def check_all(seed: str, windows: Any, cached: bool, count: int, **how: Any) -> None:
    spec = default_store(windows, cached)
    topology = aggregate(windows, "kept" if cached else spec, **how)
    silent = (
        (None, "z") if how.get("final") else (None,)
    )  # no result of None reaches the buffer: it moves no time in Kafka
    for script in minutes(f"{seed} {cached}", windows, count, silent=silent):
        if cached:
            both = run_both(topology, script, inputs=INPUTS, in_memory=False)
            # behind a forgotten tombstone a buffer has one row less in its changelog, and the same last one
            compacted = bool(how) and isinstance(windows, SessionWindows)
            compare_cached(both, spec, sliding=isinstance(windows, SlidingWindows), compacted=compacted)
        else:
            check(topology, script, inputs=INPUTS, compacted=True, stores=not isinstance(windows, SlidingWindows))


both_ways = pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])


@pytest.mark.capability("TW1", "W1")
@both_ways
@pytest.mark.parametrize("name", TUMBLING)
def test_tumbling_windows(name: str, cached: bool) -> None:
    check_all(f"tumbling {name}", TUMBLING[name], cached, 50)


@pytest.mark.capability("TW1", "W1")
@both_ways
@pytest.mark.parametrize("name", HOPPING)
def test_hopping_windows(name: str, cached: bool) -> None:
    check_all(f"hopping {name}", HOPPING[name], cached, 76)


@pytest.mark.capability("TW1", "W2")
@both_ways
@pytest.mark.parametrize("name", SLIDING)
def test_sliding_windows(name: str, cached: bool) -> None:
    check_all(f"sliding {name}", SLIDING[name], cached, 50)


@pytest.mark.capability("SW1", "W3")
@both_ways
@pytest.mark.parametrize("name", SESSIONS)
def test_sessions(name: str, cached: bool) -> None:
    check_all(f"sessions {name}", SESSIONS[name], cached, 50)


FINAL = {**{f"tumbling {n}": w for n, w in TUMBLING.items()}, **{f"sliding {n}": w for n, w in SLIDING.items()},
         **{f"sessions {n}": w for n, w in SESSIONS.items()}}  # fmt: skip


@pytest.mark.capability("SU1")
@both_ways
@pytest.mark.parametrize("name", FINAL)
def test_suppressed_until_the_window_closes(name: str, cached: bool) -> None:
    check_all(f"final {name}", FINAL[name], cached, 18, final=True)


@pytest.mark.capability("KS13")
@pytest.mark.parametrize("method", ["join", "left_join", "outer_join"])
@pytest.mark.parametrize("name", JOINS)
def test_stream_joins(name: str, method: str) -> None:
    """Window stores that keep duplicates; they are never cached."""
    windows = JOINS[name]

    def topology(builder: Any) -> None:
        left, right = builder.stream("left", **TEXT), builder.stream("right", **TEXT)
        joined = getattr(left, method)(right, lambda one, other: f"{one}+{other}", window=windows)
        joined.to("out", **TEXT)

    for script in minutes(f"{method} {name}", windows, 34, topics=("left", "right")):
        if method == "join":
            check(topology, script, inputs=INPUTS)
            continue
        # rows without a match leave at once, without headers: of each key the same in the end (docs/differences.md)
        both = run_both(topology, ended(script, windows), inputs=INPUTS, in_memory=False)
        assert (both.kafka.failed, both.penstock.failed) == (None, None)
        assert results(both.penstock.output) == results(both.kafka.output)


ON_CLOSE = {**FINAL, **{f"hopping {n}": w for n, w in HOPPING.items()}}


@pytest.mark.capability("EM1")
@both_ways
@pytest.mark.parametrize("name", ON_CLOSE)
def test_on_window_close(name: str, cached: bool) -> None:
    """A known difference: where the store has already expired a window that closes, Kafka never emits it.

    With a cache, tumbling and hopping windows are still found there; stores of other windows are not cached on close.
    """
    windows = ON_CLOSE[name]
    spec = default_store(windows, cached)
    found = cached and isinstance(windows, TimeWindows)
    for script in minutes(f"close {name}", windows, 14):
        both = run_both(aggregate(windows, spec, on_close=True), script, inputs=INPUTS, in_memory=False)
        kafka, ours = ([row[:3] for row in run.output.get("out", [])] for run in (both.kafka, both.penstock))
        late = [row for row in ours if row not in kafka]
        assert [row for row in ours if row in kafka] == kafka, script
        assert not (found and late), script
        assert spec.retention is not None
        at = slice(-16, -8) if spec.kind is StoreKind.SESSION else slice(-8, None)
        for row in late:
            assert int.from_bytes(row[0][at], "big") <= newest(both, spec) - spec.retention, script
        assert_changelogs_equal(both, compacted=True)
        if found:
            compare_cached_contents(both, spec, newest(both, spec) - spec.retention)
        elif not isinstance(windows, SlidingWindows):
            assert both.kafka.stores == both.penstock.stores, script


# ---- the differences, each by itself


def outputs(topology: Any, *records: tuple[str, str, int]) -> tuple[list[Any], list[Any]]:
    """(key, start, end, value) of what Kafka and Penstock send, session by session."""
    both = run_both(topology, [("in", *record) for record in records], inputs=INPUTS, in_memory=False)
    return shown(both.kafka.output["out"]), shown(both.penstock.output["out"])


def shown(rows: list[Any]) -> list[Any]:
    decode = Serdes.session_windowed(Serdes.string).deserialize
    return [(*decode(key), value and value.decode()) for key, value, *_ in rows]


@pytest.mark.capability("SW1", "W3")
def test_the_tombstone_of_an_expired_session_that_is_merged_reaches_downstream() -> None:
    """Kafka asks its store what to take back, and there the session has expired; so a stale row stays downstream."""
    one, two = 10 * MINUTE, 11 * MINUTE
    kafka, ours = outputs(
        aggregate(SessionWindows(MINUTE), "kept"), ("a", "x", one), ("b", "x", two), ("a", "y", one + 1)
    )
    assert kafka == [("a", one, one, ".x"), ("b", two, two, ".x"), ("a", one, one + 1, "(.|.x)y")]
    assert ours == [*kafka[:2], ("a", one, one, None), kafka[2]]


@pytest.mark.capability("SW1", "W3")
def test_a_late_record_does_not_reach_sessions_older_than_twice_the_retention() -> None:
    """It reaches back from the start of a long session. Kafka merges what its cache still has, else (evicted, restarted) as ours."""
    late, start, now = 9 * MINUTE, 10 * MINUTE, 20 * MINUTE
    records = [
        ("a", "x", late - MINUTE),
        *(("a", "s", time) for time in range(start, now + 1, MINUTE)),
        ("a", "y", late),
    ]
    kafka, ours = outputs(aggregate(SessionWindows(MINUTE), "kept"), *records)
    assert kafka[:-1] == ours[:-1]
    assert kafka[-1][:3] == ("a", late - MINUTE, now)
    assert ours[-1][:3] == ("a", late, now)
    spec = default_store(SessionWindows(MINUTE), cached=False)
    kafka, ours = outputs(aggregate(SessionWindows(MINUTE), spec), *records)
    assert kafka == ours
    assert kafka[-1][:3] == ("a", late, now)


@pytest.mark.capability("SW1", "W3")
def test_kafka_fails_where_a_cached_session_could_have_ended_a_segment_before_time_zero() -> None:
    windows = SessionWindows(2 * MINUTE)
    both = run_both(aggregate(windows, "kept"), [("in", "a", "x", 0)], inputs=INPUTS, in_memory=False)
    assert "segment interval has changed" in str(both.kafka.error)
    assert shown(both.penstock.output["out"]) == [("a", 0, 0, ".x")]


@pytest.mark.capability("TW1", "W1")
def test_a_cached_store_shows_nothing_older_than_its_segments() -> None:
    """Kafka's cache shows every row that it has not evicted yet."""
    script = [("in", "a", "x", 0), ("in", "a", "x", 10 * MINUTE)]
    both = run_both(aggregate(TimeWindows(MINUTE), "kept"), script, inputs=INPUTS, in_memory=False)
    assert both.kafka.stores["kept"] == [("a", 0, ".x", 0), ("a", 10 * MINUTE, ".x", 10 * MINUTE)]
    assert both.penstock.stores["kept"] == [("a", 10 * MINUTE, ".x", 10 * MINUTE)]
