"""Are two runs the same? Everything that is promised is compared, and nothing that is not.

Promised of a topic: in each partition the records of each key, in the order of their writer. Where several writers have records
of one key (a key that was changed on the way, without a repartition), those of each writer are in order; how the writers are
mixed is open.

Promised of a changelog: the last row of each key; where it was cut, of the keys that are left, and the store that is made of them.
"""

from __future__ import annotations

from typing import Any

from tests.spark.runs import Seen, Writer, Written


def assert_same(engine: Seen, driver: Seen) -> None:
    """Fail with the first difference between the engine's run and the driver's."""
    for topic in sorted(engine.sinks.keys() | driver.sinks.keys()):
        _assert_same_topic(topic, engine.sinks.get(topic, {}), driver.sinks.get(topic, {}))
    for store in sorted(engine.changelogs.keys() | driver.changelogs.keys()):
        ours, theirs = engine.changelogs.get(store, {}), driver.changelogs.get(store, {})
        if store in engine.cut:  # rows that have expired may be there or not
            ours, theirs = ({p: row for p, row in one.items() if p in ours and p in theirs} for one in (ours, theirs))
        assert ours == theirs, f"changelog of {store}:\n{_first_difference(ours, theirs)}"
    assert engine.stores.keys() == driver.stores.keys()
    for store, rows in driver.stores.items():
        ours_, theirs_ = dict(enumerate(engine.stores[store])), dict(enumerate(rows))
        assert ours_ == theirs_, f"store {store}:\n{_first_difference(ours_, theirs_)}"
    for store, rows in engine.restored.items():
        ours_, theirs_ = dict(enumerate(rows)), dict(enumerate(driver.stores[store]))
        assert ours_ == theirs_, f"store {store}, restored:\n{_first_difference(ours_, theirs_)}"
    assert engine.dropped == driver.dropped, f"dropped:\n{_first_difference(engine.dropped, driver.dropped)}"


def _assert_same_topic(topic: str, engine: dict[Any, list[Any]], driver: dict[Any, list[Any]]) -> None:
    engine, driver = _without_traces(engine), _without_traces(driver)
    for key in sorted(engine.keys() | driver.keys(), key=repr):
        ours, theirs = engine.get(key, []), driver.get(key, [])
        if key is None:  # the producer may put them anywhere, so their order is not that of the topic
            assert _anywhere(ours) == _anywhere(theirs), f"topic {topic}, without a key:\n{_sides(ours, theirs)}"
        elif not all(_same_partition(ours, theirs, p) for p in {row.partition for _, row in (*ours, *theirs)}):
            raise AssertionError(f"topic {topic}, key {key!r}:\n{_sides(ours, theirs)}")


def _without_traces(rows: dict[Any, list[Any]]) -> dict[Any, list[Any]]:
    """Of the stack trace of a dead letter leave the last line: through which of our functions it came depends on the way taken."""

    def bare(written: Written) -> Written:
        headers = tuple(
            (name, (data or b"").splitlines()[-1] if name.endswith(".stacktrace") else data)
            for name, data in written.headers
        )
        return written._replace(headers=headers)

    return {key: [(writer, bare(row)) for writer, row in found] for key, found in rows.items()}


def _same_partition(engine: list[Any], driver: list[Any], partition: int) -> bool:
    by_writer: dict[Writer, list[Written]] = {}
    for writer, written in driver:
        if written.partition == partition:
            by_writer.setdefault(writer, []).append(written)
    return mixed([row for _, row in engine if row.partition == partition], list(by_writer.values()))


def _anywhere(rows: list[tuple[Writer, Written]]) -> list[str]:
    return sorted(repr(row[1:]) for _, row in rows)


def mixed(rows: list[Any], parts: list[list[Any]]) -> bool:
    """Whether ``rows`` is made of all the parts, each in its own order.

    >>> mixed([1, 3, 2, 4], [[1, 2], [3, 4]]), mixed([2, 1], [[1, 2]]), mixed([1], [[1], [2]])
    (True, False, False)
    """
    if len(rows) != sum(map(len, parts)):
        return False
    reached = {(0,) * len(parts)}
    for row in rows:
        reached = {
            (*places[:i], place + 1, *places[i + 1 :])
            for places in reached
            for i, place in enumerate(places)
            if place < len(parts[i]) and parts[i][place] == row
        }
    return bool(reached)


def _sides(ours: list[Any], theirs: list[Any]) -> str:
    lines = ["  engine:", *(f"    {row}" for _, row in ours), "  driver, with the writer:"]
    return "\n".join([*lines, *(f"    {writer} {row}" for writer, row in theirs)])


def _first_difference(ours: dict[Any, Any], theirs: dict[Any, Any]) -> str:
    different = [key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)]
    shown = sorted(different, key=repr)[:5]
    lines = [f"  {key}\n    engine: {ours.get(key)}\n    driver: {theirs.get(key)}" for key in shown]
    return "\n".join([f"  {len(different)} differ, of {len(ours)} and {len(theirs)}", *lines])
