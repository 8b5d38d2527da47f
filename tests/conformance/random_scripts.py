"""Random scripts for differential tests: few keys, repeated and out-of-order times, nulls, edges hit often."""

import os
from collections.abc import Sequence
from random import Random
from typing import Any

Step = tuple[Any, ...]


def share_of(count: int) -> int:
    """How many of so many scripts are run: one in three, all with ``PENSTOCK_LONG=1``. (`test_sixteen_shards.py` runs all of its own.)"""
    return count if os.environ.get("PENSTOCK_LONG") else max(1, count // 3)


def times(random: Random, length: int, edges: Sequence[int], scale: int = 1) -> list[int]:
    """Timestamps that mostly go on, often by exactly an edge or one off it, and sometimes back."""
    now, result = random.choice([0, 10 * scale]), []
    for _ in range(length):
        step = random.choice(
            [0, 0, 1, random.choice(edges) * scale, random.choice(edges) * scale + random.choice([-1, 1])]
        )
        if random.random() < 0.3:
            result.append(max(0, now - step))
        else:
            now += max(0, step)
            result.append(now)
    return result


def script(
    random: Random,
    topics: Sequence[str],
    edges: Sequence[int],
    *,
    scale: int = 1,
    length: int = 24,
    keys: Sequence[Any] = ("a", "b"),
    values: Sequence[str] = ("x", "y", "z"),
    nulls: float = 0.12,
) -> list[Step]:
    """Steps of (topic, key, value, timestamp, headers); a record without key or value comes with probability ``nulls``.

    Such a record may not reach an operator, so it never brings a new greatest time: `settled`.
    """
    steps: list[Step] = []
    for number, timestamp in enumerate(times(random, length, edges, scale)):
        key = None if random.random() < nulls / 2 else random.choice(keys)
        value = None if random.random() < nulls else f"{random.choice(values)}{number}"
        headers = ((("step", str(number).encode()),) if number % 3 else (),)
        steps.append((random.choice(topics), key, value, timestamp, *headers))
    return settled(steps, keys[0], f"{values[0]}0")


def led_by(steps: Sequence[Step], topic: str) -> list[Step]:
    """Return steps in which no other topic has records before or beyond those of this one.

    Kafka's driver runs all sub-topologies as one task, with one stream time; Kafka itself, and Penstock, do not.
    """
    newest, found = -1, []
    for step in steps:
        if step[0] == "wall_clock" or step[0] == topic:
            newest = max(newest, step[3]) if step[0] == topic else newest
            found.append(step)
        elif newest >= 0:
            found.append((*step[:3], min(step[3], newest), *step[4:]))
    return found


def settled(steps: Sequence[Step], key: Any, value: Any, silent: Sequence[Any] = (None,)) -> list[Step]:
    """Return steps in which a record without a key, or with a ``silent`` value, is never the first of its topic, nor the newest.

    It moves time in Penstock, and in Kafka Streams only if it reaches the operator: the one difference of their clocks
    (`test_time_at_a_node.py` pins it).
    """
    newest: dict[str, int] = {}
    found: list[Step] = []
    for topic, its_key, its_value, timestamp, *rest in steps:
        if its_key is None or its_value in silent:
            if topic in newest:
                timestamp = min(timestamp, newest[topic])
            else:
                its_key, its_value = its_key or key, value
        newest[topic] = max(newest.get(topic, -1), timestamp)
        found.append((topic, its_key, its_value, timestamp, *rest))
    return found


def ended(steps: Sequence[Step], window: Any, topics: Sequence[str] = ("left", "right")) -> list[Step]:
    """Return steps that are in time, and behind them records that close all windows."""
    steps = in_time(steps, window.grace)
    end = max(step[3] for step in steps) + 10 * (window.before + window.after + window.grace + 1)
    return [*steps, *((topic, "end", "z", end + 1000 * at) for at in range(3) for topic in topics)]


def in_time(steps: Sequence[Step], grace: int) -> list[Step]:
    """Return steps that are at most so late as the grace allows, by the time of both topics."""
    newest, found = 0, list[Step]()
    for topic, key, value, timestamp, *rest in steps:
        newest = max(newest, timestamp)
        found.append((topic, key, value, max(timestamp, newest - grace), *rest))
    return found


def results(output: Any) -> dict[bytes, list[Any]]:
    """Return the results of each key, in any order, without headers."""
    found: dict[bytes, list[Any]] = {}
    for key, value, timestamp, _ in output.get("out", ()):
        if key not in (b"end", b"z"):
            found.setdefault(key, []).append((value, timestamp))
    return {key: sorted(rows) for key, rows in found.items()}
