"""Random scripts for differential tests: few keys, repeated and out-of-order times, nulls, edges hit often."""

import os
from collections.abc import Sequence
from random import Random
from typing import Any

Step = tuple[Any, ...]


def share_of(count: int) -> int:
    """How many of so many scripts are run: three in five, all with ``PENSTOCK_LONG=1``."""
    return count if os.environ.get("PENSTOCK_LONG") else max(1, count * 3 // 5)


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
    """Steps of (topic, key, value, timestamp, headers); a record without key or value comes with probability ``nulls``."""
    steps: list[Step] = []
    for number, timestamp in enumerate(times(random, length, edges, scale)):
        key = None if random.random() < nulls / 2 else random.choice(keys)
        value = None if random.random() < nulls else f"{random.choice(values)}{number}"
        headers = ((("step", str(number).encode()),) if number % 3 else (),)
        steps.append((random.choice(topics), key, value, timestamp, *headers))
    return steps
