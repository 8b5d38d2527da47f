"""An application that moves amounts between accounts, and what an HTTP client reads of it.

Each transfer takes an amount from one account and gives it to another, which is in another shard as a rule; legs are counted in a
second store, in memory, and all transfers in a shared one. As a program of its own::

    python -m tests.query.bank bootstrap-servers application-id topic state-folder port
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import httpx

from penstock import App, Serdes, Stores, StreamsBuilder

ACCOUNTS, PARTITIONS, SHARDS = 60, 2, 8
NUMBERS = {"key": Serdes.string, "value": Serdes.int64}


class Ledger:
    """Counts all transfers, and keeps the greatest."""

    def init(self, context: Any) -> None:
        self.store = context.store("ledger")

    def process(self, record: Any) -> None:
        self.store.put("transfers", (self.store.get("transfers") or 0) + 1)
        self.store.put("greatest", max(self.store.get("greatest") or 0, record.value["amount"]))

    def close(self) -> None:
        pass


def bank(topic: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    transfers = builder.stream(topic, value=Serdes.json)
    legs = transfers.flat_map(
        lambda _, t: [(t["from"], -t["amount"]), (t["to"], t["amount"])],
    )
    by_account = legs.group_by_key(**NUMBERS)
    by_account.reduce(lambda a, b: a + b, store=Stores.key_value("balances", **NUMBERS))
    by_account.count(store=Stores.key_value("legs", persistent=False, **NUMBERS))
    builder.add_state_store(Stores.shared("ledger", **NUMBERS))
    transfers.process(Ledger, stores=["ledger"])
    return builder


def transfer(draw: random.Random) -> str:
    first, second = draw.sample(range(ACCOUNTS), 2)
    return f'{{"from": "account-{first}", "to": "account-{second}", "amount": {draw.randrange(1, 1000)}}}'


class HttpAnswer:
    """What was read over HTTP: the epoch that it names, the records of its position, rows."""

    def __init__(self, head: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        self.epoch: int = head["epoch"]
        self.records = sum(offset + 1 for partitions in head["position"].values() for offset in partitions.values())
        self.rows: dict[str, int] = {row["key"]: row["value"] for row in rows}


def read_lines(client: httpx.Client, store: str) -> HttpAnswer:
    """Read a store as a line for each row."""
    found = client.get(f"/v1/stores/{store}/range", headers={"Accept": "application/x-ndjson"}).raise_for_status()
    head, *rows, end = (json.loads(line) for line in found.text.splitlines())
    assert end == {"end": True, "rows": len(rows)}
    return HttpAnswer(head, rows)


def read_pages(client: httpx.Client, store: str, limit: int = 7) -> HttpAnswer:
    """Read a store page by page: all of them are of one epoch."""
    rows, cursor, epochs = [], "", set()
    while cursor is not None:
        page = client.get(
            f"/v1/stores/{store}/range", params={"limit": limit, **({"cursor": cursor} if cursor else {})}
        )
        found = page.raise_for_status().json()
        epochs.add(found["epoch"])
        rows += found["rows"]
        cursor = found["cursor"]
    assert len(epochs) == 1
    return HttpAnswer(found, rows)


def read_key(client: httpx.Client, store: str, key: str) -> HttpAnswer:
    """Read one account, which may have no row."""
    answer = client.get(f"/v1/stores/{store}/keys/{key}")
    found = answer.json()
    if answer.status_code != 404:
        answer.raise_for_status()
    return HttpAnswer(found, [found] if found["found"] else [])


def main(servers: str, application: str, topic: str, state: str, port: str) -> None:
    options = {"shards": SHARDS, "inline_epoch_records": 400, "master": "local[2]", "state_dir": state}
    App(bank(topic), application_id=application, bootstrap_servers=servers, admin=port, **options).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
