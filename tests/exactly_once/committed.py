"""What a read_committed reader finds, and whether it is what must be there."""

from __future__ import annotations

import json
from collections import defaultdict
from struct import unpack
from typing import Any

from tests.exactly_once.model import (
    Order,
    Rows,
    counts_of,
    expected,
    expected_places,
    expected_stores,
    places_of,
)
from tests.exactly_once.workload import SHARDS, SINKS, WINDOWED, topic

from penstock.engine.record import read_last
from penstock.log.base import LogRecord
from penstock.log.kafka import KafkaLog
from penstock.log.topics import changelog_name, epochs_name


class Committed:
    """The topics of a run, read from the outside."""

    def __init__(self, log: KafkaLog, application: str, sink_partitions: int) -> None:
        self._log = log
        self._application = application
        self._partitions = sink_partitions

    def sinks(self) -> dict[str, Rows]:
        """Return the committed rows of every sink: key → values, in order."""
        found: dict[str, Rows] = {}
        for name in SINKS:
            rows: Rows = defaultdict(list)
            for record in self._records(topic(self._application, name), self._partitions):
                rows[_sink_key(name, record)].append(_value(name, record.value))
            found[name] = dict(rows)
        return found

    def check_results(self, orders: list[Order]) -> None:
        """Every expected record once, in order per key."""
        found, wanted = self.sinks(), expected(orders)
        for name in ("totals", "windows", "joined"):
            assert_same(found[name], wanted[name], name)
        assert_same(counts_of(found["items"]), wanted["items"], "items")
        assert_same(places_of(found["items"]), expected_places(orders), "orders of the items")

    def check_nothing_lost(self, orders: list[Order]) -> None:
        """Every expected record at least once; a reader who throws away what comes again has them in order per key."""
        found, wanted = self.sinks(), expected(orders)
        for customer, rows in wanted["joined"].items():
            assert _first_of_each(found["joined"].get(customer, [])) == rows, f"joined of {customer}"
        places = places_of(found["items"])
        for place, numbers in expected_places(orders).items():
            assert _first_of_each(places.get(place, [])) == numbers, f"orders of {place}"
        for name in ("totals", "windows"):
            for key, rows in wanted[name].items():
                assert len(found[name].get(key, [])) >= len(rows), f"{name} of {key}"

    def check_stores(self, contents: dict[str, Any], orders: list[Order], terms: dict[str, int]) -> None:
        """The stores, as the application shows them and as the changelogs have them, are what the input makes of them."""
        wanted = expected_stores(orders, terms)
        shown = {name: {_hashable(key): value for key, value in rows} for name, rows in contents.items()}
        shown["items"] = {item: row[0] for item, row in shown["items"].items()}
        logged = self.changelogs()
        for name, rows in wanted.items():
            assert_same(shown[name], rows, f"store {name}")
            if name in logged:
                assert_same(logged[name], rows, f"changelog of {name}")

    def changelogs(self) -> dict[str, dict[Any, Any]]:
        """Return the last value of every key in the changelogs; the table has none, its topic serves as one."""
        found: dict[str, dict[Any, Any]] = {}
        for name in ("totals", "items", "windows"):
            rows = found[name] = {}
            for record in self._records(changelog_name(self._application, name), SHARDS):
                value = _value(name, record.value)
                rows[_store_key(name, record)] = value[0] if name == "items" else value
        return found

    def check_no_open_transaction(self) -> None:
        """Nothing of what was written waits for the end of a transaction."""
        places = [(epochs_name(self._application), 0)]
        places += [(topic(self._application, name), part) for name in SINKS for part in range(self._partitions)]
        places += [
            (changelog_name(self._application, name), shard)
            for name in ("totals", "items", "windows")
            for shard in range(SHARDS)
        ]
        assert self._log.admin.stable_offsets(places) == self._log.admin.end_offsets(places)

    def check_epoch_record(self) -> None:
        """The last epoch's record knows of every committed row of the changelogs."""
        record = read_last(self._log, self._application)
        assert record is not None
        for name in ("totals", "items", "windows"):
            for shard, end in enumerate(record.changelogs[name]):
                last = [r.offset for r in self._records(changelog_name(self._application, name), SHARDS, [shard])][-1:]
                assert not last or last[0] < end, f"{name}-{shard} has row {last[0]}, but is said to end at {end}"

    def _records(self, name: str, partitions: int, only: list[int] | None = None) -> list[LogRecord]:
        places = [(name, partition) for partition in (range(partitions) if only is None else only)]
        begins, ends = self._log.admin.earliest_offsets(places), self._log.admin.end_offsets(places)
        reader = self._log.reader()
        try:
            return [record for place in places for record in reader.read(*place, begins[place], ends[place])]
        finally:
            reader.close()


def assert_same(found: dict[Any, Any], wanted: dict[Any, Any], what: str) -> None:
    """Compare; tell the first key that differs, and where."""
    for key in sorted(found.keys() | wanted.keys(), key=repr):
        one, other = found.get(key), wanted.get(key)
        if one == other:
            continue
        if isinstance(one, list) and isinstance(other, list):
            at = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
            at = min(len(one), len(other)) if at is None else at
            near = f"from {at}: {one[at : at + 4]}, expected {other[at : at + 4]}"
            raise AssertionError(f"{what}: {key} has {len(one)} rows of {len(other)}; {near}")
        raise AssertionError(f"{what}: {key} is {one}, expected {other}")


def _first_of_each(rows: list[Any]) -> list[Any]:
    kept: dict[Any, Any] = {}
    for row in rows:
        kept.setdefault(_hashable(row), row)
    return list(kept.values())


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def _value(name: str, raw: bytes | None) -> Any:
    assert raw is not None
    return unpack(">q", raw)[0] if name == "windows" else json.loads(raw)


def _sink_key(name: str, record: LogRecord) -> Any:
    assert record.key is not None
    if name != "windows":
        return record.key.decode()
    window = WINDOWED.deserialize(record.key)
    return window.key, window.start


def _store_key(name: str, record: LogRecord) -> Any:
    """Return the key of a changelog row; of a window it is key | start: int64 | number: int32."""
    assert record.key is not None
    if name != "windows":
        return record.key.decode()
    return record.key[:-12].decode(), unpack(">q", record.key[-12:-4])[0]
