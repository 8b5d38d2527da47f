"""Serdes, extractor and kind of store that a program leaves open: on Spark as in the test driver."""

import struct

from penstock import Serde, Serdes, Stores, StreamsBuilder, TimeWindows
from penstock.protocol.state_folder import application_folder, memory_folder

START = 1_600_000_020_000
TENTHS = Serde(lambda value: b"%.1f" % value, float)


def key(number):
    return struct.pack(">q", number)


def from_value(record):
    return START + int(record.value * 10)


def program(cluster):
    builder = StreamsBuilder()
    readings = builder.stream(cluster.name("readings"))
    rooms = builder.table(cluster.name("rooms"), store="rooms")
    readings.select_key(lambda number, value: number % 3).group_by_key().reduce(max, store="highest").to_stream().to(
        cluster.name("highest")
    )
    windows = readings.group_by_key().windowed_by(TimeWindows(1_000)).count(store="windows")
    windows.to_stream(key=lambda window, count: window.key).to(cluster.name("windows"))
    joined = readings.left_join(rooms, lambda reading, room: reading - (room or 0))
    joined.to_table(store=Stores.key_value("joined", persistent=True)).to_stream().to(cluster.name("joined"))
    return builder


def rows(first, last):
    return [(key(number % 5), b"%.1f" % (number / 2), START - number) for number in range(first, last)]


def test_what_a_program_leaves_open_is_the_same_on_spark_and_in_the_driver(start, cluster, twin, by_key):
    for topic in ("readings", "rooms", "highest", "windows", "joined"):
        cluster.topic(topic)
    settings = {
        "default_key_serde": Serdes.int64,
        "default_value_serde": TENTHS,
        "default_timestamp_extractor": from_value,
        "default_store": "in_memory",
    }
    builder = program(cluster)
    driver, engine = twin(builder, **settings), start(builder, **settings)
    for first, last in ((0, 20), (20, 2_000), (2_000, 2_010)):
        for each in (cluster, driver):
            each.send(cluster.name("rooms"), (key(first % 5), b"0.5", START))
            each.send(cluster.name("readings"), *rows(first, last))
        driver.driver.commit()
        engine.drain()
        if last == 2_000:  # what is in memory is restored from its changelog
            engine.close()
            engine = start(builder, **settings)
            assert engine.restored > 10
    for topic in ("highest", "windows", "joined"):
        found = by_key(cluster.rows(cluster.name(topic)))
        assert len(found) > 2
        assert {each: lists[-1] for each, lists in found.items()} == {
            each: lists[-1] for each, lists in by_key(driver.rows(cluster.name(topic))).items()
        }
    times = [row[2] for row in cluster.rows(cluster.name("highest"))]
    assert max(times) == START + 2_009 * 5
    assert dict(engine.view("highest").all()) == dict(driver.driver.store("highest").all())
    stores = engine.engine.topology.stores
    assert {name: spec.persistent for name, spec in stores.items()} == {
        "rooms": False, "highest": False, "windows": False, "joined": True,
    }  # fmt: skip
    stage = engine.engine.stage
    assert any(memory_folder(stage, application_folder(stage)).rglob("data.mdb"))
