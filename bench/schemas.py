"""What a schema registry costs a record: ``python -m bench.schemas [--records 20000] [--rounds 7]``.

Avro, a record of five fields, plain values (dicts): fastavro alone against `Serdes.avro(schema, registry=...)`, value by value and by
column, as a source and a sink of the engine do it. All ways take turns in one process; each figure is processor time, the best of its
rounds, and what counts is the ratio to fastavro alone. The ids are known: a registry is asked once for each.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa

from penstock import Serdes
from penstock.batch.column import Column

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "cents", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


def values(count: int) -> list[dict[str, Any]]:
    """Return orders."""
    return [
        {
            "user": f"user-{at}",
            "cents": at,
            "price": at / 7,
            "tags": ["new", "web"],
            "note": None if at % 2 else "a note",
        }
        for at in range(count)
    ]


def ways(count: int) -> dict[str, dict[str, Callable[[], Any]]]:
    """Return, for writing and for reading, what is compared: each runs over all records once."""
    serde = Serdes.avro(SCHEMA, registry="mock://bench").bound_to("orders")  # type: ignore[attr-defined]
    given = values(count)
    parsed = fastavro.parse_schema(SCHEMA)
    framed = list(map(serde.serialize, given))
    bare, column = [data[5:] for data in framed], pa.array(framed, pa.binary())
    assert list(map(serde.deserialize, framed)) == given

    def write(value: Any) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        return out.getvalue()

    def read(data: bytes) -> Any:
        return fastavro.schemaless_reader(BytesIO(data), parsed, None)

    assert list(map(write, given)) == bare
    return {
        "write": {
            "fastavro alone": lambda: pa.array(list(map(write, given)), pa.binary()),
            "record by record": lambda: pa.array(list(map(serde.serialize, given)), pa.binary()),
            "by batch": lambda: Column(given).arrow_of(serde),
        },
        "read": {
            "fastavro alone": lambda: list(map(read, bare)),
            "record by record": lambda: list(map(serde.deserialize, framed)),
            "by batch": lambda: Column(data=column, serde=serde).items,
        },
    }


def measure(count: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return microseconds a record, the best of the rounds."""
    found: dict[str, dict[str, float]] = {}
    all_ways = ways(count)
    gc.disable()  # as in a worker
    for _ in range(rounds):
        for direction, those in all_ways.items():
            for name, run in those.items():
                gc.collect()
                began = time.process_time()
                run()
                us = (time.process_time() - began) / count * 1e6
                best = found.setdefault(direction, {})
                best[name] = min(us, best.get(name, us))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.records, given.rounds)
    if given.json:
        print(json.dumps(found))
        return
    print("| | us a record | of fastavro alone |\n| --- | --- | --- |")
    for direction, those in found.items():
        alone = those["fastavro alone"]
        for name, us in those.items():
            print(f"| {direction}, {name} | {us:.2f} | {us / alone:.2f} |")


if __name__ == "__main__":
    main()
