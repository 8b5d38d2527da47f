"""Random scripts that go where windows are decided: equal times, both sides of every edge, late, early, null, far ahead."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from compare import Both, Run, assert_equal, run_both
from random_scripts import settled, share_of

from penstock.state.spec import Stores, StoreSpec
from penstock.windows import SessionWindows, SlidingWindows, UnlimitedWindows

#: how many scripts `scripts` gives unless told
MANY = 40
#: a retention that nothing outlives
LONG = 10**7


class Times:
    """A walk through time that likes edges: distances such as a window's size, its grace, a store's retention."""

    def __init__(self, rng: random.Random, distances: Sequence[int], *, start: int = 0, jumps: bool = True) -> None:
        self._rng = rng
        self._distances = [distance for distance in distances if distance > 0]
        self._jumps = jumps
        self._step = max(1, min(self._distances) // 3)
        self.now = start

    def next(self) -> int:
        """Return the next record's time: mostly a small step on, else somewhere near an edge."""
        rng, time = self._rng, self.now
        distance, nudge = rng.choice(self._distances), rng.choice((-1, 0, 0, 1))
        move = rng.random()
        if move < 0.35:
            time += rng.randint(0, self._step)
        elif move < 0.45:
            pass  # the same time again
        elif move < 0.60:
            time = (time // distance + rng.choice((0, 1))) * distance + nudge
        elif move < 0.80:
            time -= distance + nudge
        elif move < 0.85:
            time = rng.randint(0, max(1, self.now))
        elif move < 0.95 or not self._jumps:
            time += min(distance, self._distances[0]) + nudge
        else:
            time += distance * rng.choice((1, 2, 3)) + nudge
        time = max(0, time)
        self.now = max(self.now, time)
        return time


def scripts(
    seed: str,
    distances: Sequence[int],
    *,
    topics: Sequence[str] = ("in",),
    keys: str = "aaab",
    values: str = "stuvwxyz",
    nulls: bool = True,
    jumps: bool = True,
    count: int = MANY,
    length: int = 18,
    starts: Sequence[int] = (0, 3, 25),
    silent: Sequence[Any] = (None,),
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the share of ``count`` scripts that is run, for `compare.check`: (topic, key, value, timestamp, headers)."""
    for number in range(share_of(count)):
        rng = random.Random(f"{seed} {number}")
        times = Times(rng, distances, start=rng.choice(starts), jumps=jumps)
        steps = [_step(rng, times, topics, keys, values, nulls) for _ in range(rng.randint(length // 2, length))]
        yield settled(steps, keys[0], values[0], silent)


def _step(
    rng: random.Random, times: Times, topics: Sequence[str], keys: str, values: str, nulls: bool
) -> tuple[Any, ...]:
    key = None if nulls and rng.random() < 0.05 else rng.choice(keys)
    value = None if nulls and rng.random() < 0.10 else rng.choice(values)
    headers = (("h", rng.choice((b"1", b"2", None))),) if rng.random() < 0.3 else ()
    return (rng.choice(topics), key, value, times.next(), headers)


def kept(windows: Any, cached: bool) -> StoreSpec:
    """Return the store of windows, kept as long as the windows need.

    A cached one is kept long: Kafka's cache, unlike its store, also shows what is past the retention.
    """
    if isinstance(windows, UnlimitedWindows):
        return Stores.window("kept", windows.size, windows.size, cached=cached)
    retention = windows.retention + (LONG if cached else 0)
    if isinstance(windows, SessionWindows):
        return Stores.session("kept", retention, cached=cached)
    size = windows.difference if isinstance(windows, SlidingWindows) else windows.size
    return Stores.window("kept", retention, size, cached=cached)


def check(topology: Any, script: Any, *, inputs: Any, compacted: bool = False, **what: bool) -> Both:
    """Run both and compare; changelogs by key, as the order of different keys within one barrier says nothing.

    ``compacted``: only the last row of each key. Kafka without a cache logs every write, Penstock once per row and barrier.
    """
    both = run_both(topology, script, inputs=inputs, in_memory=False)
    assert_equal(both, changelogs=False, **what)
    assert_changelogs_equal(both, compacted)
    return both


def assert_changelogs_equal(both: Both, compacted: bool) -> None:
    """Compare the changelogs by key; ``compacted``: only the last row of each."""
    kafka, penstock = changelogs(both.kafka, compacted), changelogs(both.penstock, compacted)
    if kafka != penstock:
        topic = next(t for t in kafka.keys() | penstock.keys() if kafka.get(t) != penstock.get(t))
        rows, ours = kafka.get(topic, {}), penstock.get(topic, {})
        key = next(k for k in rows.keys() | ours.keys() if rows.get(k) != ours.get(k))
        steps = "\n".join(f"    {step}" for step in both.script)
        raise AssertionError(
            f"{topic} differs at {key!r}:\n  kafka: {rows.get(key)}\n  ours:  {ours.get(key)}\n{steps}"
        )


def changelogs(run: Run, compacted: bool) -> dict[str, dict[bytes, list[Any]]]:
    """Return the changelog rows by topic and key. Rows of suppress buffers have no timestamp in Kafka."""
    found: dict[str, dict[bytes, list[Any]]] = {}
    for topic, rows in run.output.items():
        if topic.endswith("-changelog"):
            keys = found.setdefault(topic, {})
            for key, value, timestamp, headers in rows:
                row = (value, None if "SUPPRESS" in topic or "buffer" in topic else timestamp, headers)
                keys[key] = [row] if compacted else [*keys.get(key, ()), row]
    return found


# the functions that both sides run: they show the order of what they were given, and sometimes they say None


def empty() -> str:
    """Start an aggregate."""
    return "."


def append(key: Any, value: str | None, aggregate: str) -> str | None:
    """Write the value at the end; "z" makes it all nothing."""
    return None if value == "z" else aggregate + ("-" if value is None else value)


def append_other(key: Any, value: str | None, aggregate: str) -> str:
    """Write the value of another stream at the end."""
    return aggregate + ("=" if value is None else value.upper())


def glue(aggregate: str, value: str | None) -> str | None:
    """Reduce two values to one."""
    return None if value == "z" else aggregate + ("-" if value is None else value)


def merge(key: Any, one: str, other: str) -> str:
    """Merge two sessions."""
    return f"({one}|{other})"
