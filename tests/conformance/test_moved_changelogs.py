"""The program of docs/migration/state.md: the changelogs of the real Kafka Streams become equal ones, and Python goes on as Java does."""

import sys
from types import ModuleType

import oracle
from moved_state import AFTER, BEFORE, OUTPUT, SHOP_BEFORE, STORES, by_key, compacted, java_topology, program, shop

from penstock import App, Serdes, StreamsBuilder, Windowed
from penstock.testing import TopologyTestDriver


def click(driver, records):
    clicks = driver.input_topic("clicks", value=Serdes.string)
    for key, second in records:
        clicks.pipe(key, "click", second * 1000)


def values(rows):
    """Return the values of each key, in their order."""
    return {key: [value for value, _ in kept] for key, kept in by_key(rows).items()}


def test_moved_changelogs_are_equal_and_python_goes_on_as_java(tmp_path, monkeypatch):
    visits, move = program("visits", monkeypatch), program("move", monkeypatch)
    with oracle.TopologyTestDriver(oracle.Topology(java_topology(tmp_path))) as driver:
        click(driver, BEFORE)
        old = driver.all_output()
        changelogs = {store: old[f"{oracle.APPLICATION_ID}-{store}-changelog"] for store in STORES}
        click(driver, AFTER)
        expected = {topic: driver.all_output()[topic][len(old[topic]) :] for topic in OUTPUT}

    with TopologyTestDriver(move.builder, config={"application_id": "visits"}) as driver:
        for store, rows in changelogs.items():
            for key, value, timestamp, headers in rows:
                driver.pipe_raw(f"visits-java-{store}-changelog", 0, key, value, timestamp, headers)
        for store, rows in changelogs.items():
            assert compacted(driver.all_output()[f"visits-{store}-changelog"]) == compacted(rows)
        moved = {store: driver.store_contents(store) for store in STORES}

    with TopologyTestDriver(visits.builder, config={"cache_max_bytes": 0}) as driver:
        fill(driver, moved)
        driver.commit()  # what is filled into a table is forwarded
        filled = {topic: len(driver.all_output().get(topic, ())) for topic in OUTPUT}
        click(driver, AFTER)
        got = {topic: driver.all_output()[topic][filled[topic] :] for topic in OUTPUT}
        for topic in OUTPUT:
            assert values(got[topic]) == values(expected[topic]), topic
        assert len(values(got["visit-counts"])) == 5


def fill(driver, moved):
    """Put the moved rows, which are bytes, into the stores of the application; a driver's stores take values without timestamps."""
    number = Serdes.int64.deserialize
    for key, value, _ in moved["visits"]:
        driver.store("visits").put(key.decode(), number(value))
    for key, start, value, _ in moved["minutes"]:
        driver.store("minutes").put(key.decode(), number(value), start)
    for key, start, end, value in moved["sessions"]:
        driver.store("sessions").put(Windowed(key.decode(), start, end), number(value))


def test_versioned_tables_and_subscriptions_of_foreign_keys_are_moved(monkeypatch):
    java, ours = oracle.StreamsBuilder(), StreamsBuilder()
    shop(java)
    shop(ours)
    visits = ModuleType("visits")
    visits.app = App(ours, application_id="visits")
    monkeypatch.setitem(sys.modules, "visits", visits)
    move = program("move", monkeypatch)
    with oracle.TopologyTestDriver(java) as driver:
        for topic, key, value, second in SHOP_BEFORE:
            driver.input_topic(topic, value=Serdes.string).pipe(key, value, second * 1000)
        changelogs = {
            store: driver.all_output()[f"{oracle.APPLICATION_ID}-{store}-changelog"]
            for store in visits.app.topology.stores
        }
    assert len(changelogs) == 4, "orders, customers, prices, subscriptions"
    with TopologyTestDriver(move.builder, config={"application_id": "visits"}, shards=4) as driver:
        for store, rows in changelogs.items():
            for key, value, timestamp, headers in rows:
                driver.pipe_raw(f"visits-java-{store}-changelog", 0, key, value, timestamp, headers)
        for store, rows in changelogs.items():
            assert compacted(driver.all_output()[f"visits-{store}-changelog"]) == compacted(rows), store
