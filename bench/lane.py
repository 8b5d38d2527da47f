"""What a lane costs per record, without serde: filter → map_values → group_by_key → aggregate over decoded records.

Beside it, in the same run, a hand-written loop that keeps the same table. Run it with::

    python -m bench.lane                # 1 M records, 50 k keys
    python -m bench.lane --json

The chain includes the store (write-back map, timestamps), the barrier and the changelog rows; the store's serdes are identities,
so no byte is encoded (keys and aggregates are bytes from the start: the largest amount of each customer). Times are the best of
several alternating runs: the machine is noisy, the ratio is what counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from typing import Any

from penstock import Serdes, Stores, StreamsBuilder
from penstock.clock import SystemClock
from penstock.config import load
from penstock.lane.task import Task
from penstock.record import Headers, Origin
from penstock.state.memory import MemoryState

Records = list[tuple[Any, Any, int, Headers, Origin]]

#: keys and aggregates are bytes already: what is left is the cost of the lane itself
AS_IS = Serdes.bytes


def is_paid(key: Any, value: Any) -> bool:
    return bool(value["paid"])


def amount(value: Any) -> Any:
    return value["amount"]


def start() -> bytes:
    return b""


def larger(key: Any, value: bytes, largest: bytes) -> bytes:
    return value if value > largest else largest


def make_records(count: int, keys: int) -> Records:
    rng = random.Random(7)
    names = [b"customer-%06d" % n for n in range(keys)]
    return [
        (
            key,
            {"paid": rng.random() < 0.9, "amount": rng.randbytes(8)},
            n,
            (),
            Origin("orders", 0, n, n, key, b"", (), 0, n),
        )
        for n in range(count)
        for key in (rng.choice(names),)
    ]


def by_hand(records: Records) -> tuple[dict[Any, Any], list[Any]]:
    """The same table as a person would write it: value and timestamp by key, and the rows of its changelog at the end."""
    table: dict[Any, tuple[Any, int]] = {}
    for key, value, timestamp, _headers, _origin in records:
        if is_paid(key, value):
            paid = amount(value)
            row = table.get(key)
            if row is None:
                table[key] = (larger(key, paid, start()), timestamp)
            else:
                largest, at = row
                table[key] = (larger(key, paid, largest), timestamp if timestamp > at else at)
    return table, [(key, largest, at) for key, (largest, at) in table.items()]


def open_lane() -> Task:
    builder = StreamsBuilder()
    (
        builder.stream("orders", key=AS_IS, value=AS_IS)
        .filter(is_paid)
        .map_values(amount)
        .group_by_key(key=AS_IS, value=AS_IS)
        .aggregate(start, larger, store=Stores.key_value("largest", key=AS_IS, value=AS_IS))
    )
    return Task(
        builder.build(), 0, MemoryState(), application_id="bench", config=load({}, environ={}), clock=SystemClock()
    )


def by_lane(task: Task, records: Records) -> list[Any]:
    source = next(iter(task.entries))
    task.process_all(source, records)
    task.flush()
    return [row for sealed in task.seal().values() for row in sealed.changelog]


def seconds(f: Any, *args: Any) -> tuple[float, Any]:
    gc.collect()
    gc.disable()
    begin = time.perf_counter()
    result = f(*args)
    end = time.perf_counter()
    gc.enable()
    return end - begin, result


def measure(count: int, keys: int, runs: int) -> dict[str, Any]:
    records = make_records(count, keys)
    lane_times, hand_times = [], []
    for number in range(runs):
        if sys.stderr.isatty():
            print(f"\rrun {number + 1} of {runs}", end="", file=sys.stderr)
        hand_time, (table, _) = seconds(by_hand, records)
        lane_time, rows = seconds(by_lane, open_lane(), records)
        assert {key: (value, at) for key, value, at, _ in rows} == table, (
            "the lane's table differs from the hand-written one"
        )
        hand_times.append(hand_time)
        lane_times.append(lane_time)
    lane, hand = min(lane_times), min(hand_times)
    return {
        "records": count,
        "keys": keys,
        "lane_us_per_record": round(lane / count * 1e6, 3),
        "by_hand_us_per_record": round(hand / count * 1e6, 3),
        "ratio": round(lane / hand, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options.records, options.keys, options.runs)
    if options.json:
        print(json.dumps(result))
        return
    print(f"\r{result['records']:,} records, {result['keys']:,} keys")
    print(f"  lane     {result['lane_us_per_record']:.3f} µs a record (budget 2)")
    print(f"  by hand  {result['by_hand_us_per_record']:.3f} µs a record")
    print(f"  ratio    {result['ratio']:.2f} (budget 4)")


if __name__ == "__main__":
    main()
