"""The jobs as a program of quixstreams, at least once. It runs with packages of its own, so it imports nothing of this project::

    python quix.py job bootstrap application-id at_least_once processes state-dir in,in out [name=value ...]

quixstreams works with one thread; more processes are more members of the group. It prints RUNNING, and ends at the end of its standard
input or at SIGTERM. Settings: ``job.`` are the job's own; others are not known.

Commits are a second apart (its own default is five); its producer has the settings of the others. It has no cache in front of a table:
every update of a table is a result, and a row of the changelog.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]
from quixstreams.models.serializers import Serializer  # type: ignore[import-not-found]

SAME_PRODUCER = {"linger.ms": 1000, "batch.size": 1_000_000, "queue.buffering.max.messages": 1_000_000}
COMMIT_SECONDS = 1.0
TEXT_KEYS = {"key_serializer": "str", "key_deserializer": "str"}


class Second(Serializer):  # type: ignore[misc]
    """Writes the second of two byte strings; the first is the key."""

    def __call__(self, value: Any, ctx: Any) -> bytes:
        second: bytes = value[1]
        return second


def int64(number: int) -> bytes:
    return number.to_bytes(8, "big")


def add(value: Any, state: Any) -> dict[str, int]:
    count, total = state.get("total", (0, 0))
    count, total = count + 1, total + value["amount"]
    state.set("total", (count, total))
    return {"count": count, "sum": total}


def count_up(_word: str, state: Any) -> bytes:
    count = state.get("count", 0) + 1
    state.set("count", count)
    return int64(count)


def of_window(window: Any, key: bytes, _timestamp: int, _headers: Any) -> tuple[bytes, bytes]:
    return key + int64(window["start"]), int64(window["value"])


def sale(purchase: Any) -> dict[str, Any]:
    return {
        "order": purchase["order"],
        "customer": purchase["customer"],
        "cents": purchase["amount"] * 100,
        "note": purchase["note"],
    }


def stateless(app: Any, sources: list[str], target: str, options: dict[str, str]) -> None:
    frame = app.dataframe(app.topic(sources[0]))
    frame.filter(lambda purchase: purchase["amount"] >= 20).apply(sale).to_topic(app.topic(target))


def count_sum(app: Any, sources: list[str], target: str, options: dict[str, str]) -> None:
    app.dataframe(app.topic(sources[0])).apply(add, stateful=True).to_topic(app.topic(target))


def rekey_aggregate(app: Any, sources: list[str], target: str, options: dict[str, str]) -> None:
    frame = app.dataframe(app.topic(sources[0])).group_by("customer", **TEXT_KEYS)
    frame.apply(add, stateful=True).to_topic(app.topic(target, key_serializer="str"))


def word_count(app: Any, sources: list[str], target: str, options: dict[str, str]) -> None:
    text = {"value_serializer": "str", "value_deserializer": "str"}
    frame = app.dataframe(app.topic(sources[0], value_deserializer="str")).apply(str.split, expand=True)
    frame = frame.group_by(lambda word: word, name="word", **TEXT_KEYS, **text)
    counts = app.topic(target, key_serializer="str", value_serializer="bytes")
    frame.apply(count_up, stateful=True).to_topic(counts)


def tumbling(app: Any, sources: list[str], target: str, options: dict[str, str]) -> None:
    frame = app.dataframe(app.topic(sources[0], value_deserializer="bytes"))
    frame = frame.tumbling_window(300_000).count().current().apply(of_window, metadata=True)
    frame.to_topic(app.topic(target, value_serializer=Second()), key=lambda pair: pair[0])


def stream_table_join(app: Any, sources: list[str], target: str, options: dict[str, str]) -> None:
    purchases, customers = (app.dataframe(app.topic(source)) for source in sources)
    frame = purchases.join_asof(
        customers,
        on_merge=lambda purchase, customer: {
            "order": purchase["order"],
            "amount": purchase["amount"],
            "land": customer["land"],
        },
    )
    frame.to_topic(app.topic(target))


def stream_stream_join(app: Any, sources: list[str], target: str, options: dict[str, str]) -> None:
    orders, payments = (app.dataframe(app.topic(source)) for source in sources)
    frame = orders.join_interval(payments, on_merge="raise", grace_ms=20_000, backward_ms=10_000, forward_ms=10_000)
    frame.to_topic(app.topic(target))


def lookup(app: Any, sources: list[str], target: str, options: dict[str, str]) -> None:
    seconds = int(options["wait"]) / 1000

    def enriched(value: str, key: bytes, _timestamp: int, _headers: Any) -> str:
        time.sleep(seconds)
        return f'{value[:-1]},"letters":{len(key)}}}'

    frame = app.dataframe(app.topic(sources[0], value_deserializer="str"))
    frame.apply(enriched, metadata=True).to_topic(app.topic(target, value_serializer="str"))


JOBS = {
    job.__name__: job
    for job in (
        stateless,
        count_sum,
        rekey_aggregate,
        word_count,
        tumbling,
        stream_table_join,
        stream_stream_join,
        lookup,
    )
}


def end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def start_others(arguments: list[str], processes: int) -> None:
    """Start the other members of the group; they end when this process does, by their input."""
    for number in range(1, processes):
        changed = list(arguments)
        changed[4], changed[5] = "1", str(Path(arguments[5]).with_name(f"state-{number}"))
        subprocess.Popen([sys.executable, "-S", __file__, *changed], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)


def main(arguments: list[str]) -> None:
    job, bootstrap, application_id, _guarantee, processes, state_dir, sources, target, *given = arguments
    start_others(arguments, int(processes))
    settings = dict(setting.split("=", 1) for setting in given)
    app = Application(
        bootstrap,
        consumer_group=application_id,
        auto_offset_reset="earliest",
        commit_interval=COMMIT_SECONDS,
        state_dir=state_dir,
        producer_extra_config=SAME_PRODUCER,
        loglevel="WARNING",
    )
    options = {name.removeprefix("job."): value for name, value in settings.items()}
    JOBS[job](app, sources.split(","), target, options)
    threading.Thread(target=end_with_input, daemon=True).start()
    print("RUNNING", flush=True)
    app.run()


if __name__ == "__main__":
    main(sys.argv[1:])
