"""The application that is killed: state, a re-key, a window and a join, each with a result for every record that comes in.

    python -m tests.exactly_once.workload --bootstrap localhost:9092 --application shop --state /tmp/s --crash driver:commit:3

No store is cached, so that every update is forwarded: what must come out is known for every cut (``model``).
SIGTERM ends it at a barrier; then it writes the contents of its stores to a file.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.exactly_once import waking
from tests.exactly_once.crash import Crash

from penstock import App, Serdes, Stores, StreamsBuilder, TimeWindows
from penstock.app import Hook

WINDOW_MS = 1000
GRACE_MS = 3_600_000  # nothing is late
SINKS = ("totals", "items", "windows", "joined")
STORES = ("totals", "items", "windows", "terms")
SHARDS = 8
WINDOWED = Serdes.windowed(Serdes.string, WINDOW_MS)


def topic(application: str, name: str) -> str:
    """Return the name of a topic of a run: the broker is shared, so it has the application in it."""
    return f"{application}.{name}"


def add_up(customer: str, order: dict[str, Any], total: list[int]) -> list[int]:
    """Count and sum the orders of a customer."""
    return [total[0] + 1, total[1] + order["amount"]]


def count_and_name(item: str, order: dict[str, Any], last: list[Any]) -> list[Any]:
    """Count the orders of an item, and say which one came last."""
    return [last[0] + 1, order["customer"], order["n"]]


def topology(application: str, *, woken: bool = False) -> StreamsBuilder:
    """Build what runs: four branches from one source, one of them joined with a table; ``woken``: and one with timers."""
    builder = StreamsBuilder()
    orders = builder.stream(topic(application, "orders"))
    terms = builder.table(topic(application, "terms"), store=Stores.key_value("terms", cached=False))
    by_customer = orders.group_by_key()
    totals = by_customer.aggregate(lambda: [0, 0], add_up, store=Stores.key_value("totals", cached=False))
    totals.to_stream().to(topic(application, "totals"))
    by_item = orders.group_by(lambda customer, order: order["item"])
    items = by_item.aggregate(lambda: [0, "", 0], count_and_name, store=Stores.key_value("items", cached=False))
    items.to_stream().to(topic(application, "items"))
    windows = by_customer.windowed_by(TimeWindows(WINDOW_MS, grace=GRACE_MS)).count(
        store=Stores.window("windows", WINDOW_MS + GRACE_MS, WINDOW_MS, cached=False)
    )
    windows.to_stream().to(topic(application, "windows"), key=WINDOWED, value=Serdes.int64)
    orders.join(terms, lambda order, version: [order["n"], version]).to(topic(application, "joined"))
    if woken:
        waking.add(builder, orders, partial(topic, application))
    return builder


def make_app(application: str, bootstrap: str, state: str, *, woken: bool = False, **options: Any) -> App:
    """Make the application, with small epochs."""
    return App(
        topology(application, woken=woken),
        application_id=application,
        bootstrap_servers=bootstrap,
        state_dir=state,
        shards=SHARDS,
        max_epoch_records=150,
        commit_interval_ms=20,
        **({"master": "local[2]", "lanes": 2} | options),
    )


def contents(app: App) -> dict[str, list[list[Any]]]:
    """Return all rows of all stores, as they are at the last barrier."""
    plain = {name: [[key, value] for key, value in app.store(name).all()] for name in ("totals", "items", "terms")}
    windows = [[[key.key, key.start], count] for key, count in app.store("windows").all()]
    waiting = {"waiting": list(app.store("waiting").all())} if "waiting" in app.topology.stores else {}
    return plain | {"windows": windows} | waiting


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--application", required=True)
    parser.add_argument("--state", required=True)
    parser.add_argument("--waking", type=int, default=0, help="1: with timers and a scheduled source")
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--guarantee", default="exactly_once")
    parser.add_argument("--contents", help="file for the contents of the stores at the end")
    parser.add_argument("--crash", action="append", type=Crash.parse, default=[], help="kind:step:epoch[:milliseconds]")
    return parser.parse_args()


def main() -> int:
    """Run until SIGTERM; 0 if it ended in order, 1 with a message if not."""
    given = arguments()
    logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="%(relativeCreated)d %(message)s")
    app = make_app(
        given.application,
        given.bootstrap,
        given.state,
        woken=bool(given.waking),
        lanes=given.lanes,
        processing_guarantee=given.guarantee,
    )
    app.on_state_change(lambda new, old: print(f"state {new}", flush=True))
    app.on_restore(lambda told: print(f"restored {told.restored} rows", flush=True))
    for crash in given.crash:
        app.on_step(crash)
    if given.contents:
        app.hooks[Hook.PRE_STOP].append(lambda app: _keep(Path(given.contents), app))
    try:
        app.run()
    except Exception as error:
        print(f"failed {type(error).__name__}: {error}", flush=True)
        return 1
    return 0


def _keep(path: Path, app: App) -> None:
    if app.error is None:
        path.write_text(json.dumps(contents(app)))


if __name__ == "__main__":
    sys.exit(main())
