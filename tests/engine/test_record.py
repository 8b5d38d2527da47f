"""The epoch's record: what is written can be read again, and nothing else is taken for one."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden.make_record_golden import RECORD

from penstock.engine.record import (
    FORMAT,
    KEY,
    PART_BYTES,
    SPLIT_FORMAT,
    Clocks,
    EpochRecord,
    decode,
    encode,
    nested,
    pack,
    read_last,
    rows_of,
    unpack,
)
from penstock.errors import RecoveryError
from penstock.log.kafka import KafkaLog
from penstock.log.memory import MemoryLog
from penstock.log.topics import epochs_topic

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBER = st.integers(-1, 2**63 - 1)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
POSITIONS = st.dictionaries(st.tuples(TEXT, st.integers(0, 99)), NUMBER, max_size=4)
RECORDS = st.builds(
    EpochRecord,
    epoch=NUMBER,
    token=TEXT,
    application_id=TEXT,
    shards=st.integers(1, 64),
    lanes=st.integers(1, 64),
    offsets=POSITIONS.map(nested),
    changelogs=st.dictionaries(TEXT, st.lists(NUMBER, max_size=3), max_size=3),
    versions=st.lists(TEXT, max_size=3),
    clocks=st.builds(
        Clocks,
        reached=st.lists(st.tuples(TEXT, st.integers(0, 99), NUMBER), max_size=3),
        ahead=st.lists(st.tuples(TEXT, st.integers(0, 99), NUMBER), max_size=3),
    ),
    snapshots=st.dictionaries(TEXT, st.dictionaries(TEXT, PLAIN, max_size=2), max_size=2),
    fingerprint=TEXT,
    topology=TEXT.map(pack),
    committed_at=NUMBER,
)


def a_record(epoch: int = 1) -> EpochRecord:
    return EpochRecord(epoch=epoch, token=f"t{epoch}", application_id="shop", shards=2, lanes=1)


@given(RECORDS)
def test_a_record_is_read_as_it_was_written(record):
    assert decode(encode(record)) == record


@given(POSITIONS)
def test_offsets_come_back_as_positions(positions):
    record = msgspec.structs.replace(a_record(), offsets=nested(positions))
    assert decode(encode(record)).positions == positions


@given(TEXT)
def test_a_packed_text_comes_back(text):
    assert unpack(pack(text)) == text


def test_a_record_is_json_that_a_person_can_read():
    record = msgspec.structs.replace(a_record(), clocks=Clocks(reached=[("orders", 0, 5)], arrived=[("orders", 0, 90)]))
    said = msgspec.json.decode(encode(record))
    assert said["format"] == FORMAT
    assert (said["epoch"], said["application_id"], said["shards"]) == (1, "shop", 2)
    assert (said["clocks"]["reached"], said["clocks"]["arrived"]) == ([["orders", 0, 5]], [["orders", 0, 90]])


def test_a_format_of_the_future_is_refused_with_a_remedy():
    data = msgspec.json.encode({"format": SPLIT_FORMAT + 1, "something": "else"})
    with pytest.raises(RecoveryError, match=r"has format 3, this version .* reads formats 1 and 2.*newer"):
        decode(data)


def test_a_field_that_this_version_does_not_know_is_left_alone():
    data = msgspec.json.encode(msgspec.to_builtins(a_record()) | {"mood": "good"})
    assert decode(data) == a_record()


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[]", b"{}", b'{"format":1}', b'{"format":1,"epoch":"one"}'])
def test_bytes_that_are_no_record_are_refused_with_a_remedy(data):
    with pytest.raises(RecoveryError, match=r"cannot be read.*penstock reset"):
        decode(data)


def test_a_topology_that_cannot_be_unpacked_is_refused():
    with pytest.raises(RecoveryError, match="topology"):
        unpack("bm90IHBhY2tlZA==")


def of(application_id, record):
    return msgspec.structs.replace(record, application_id=application_id)


def write(log, application_id, *records, commit=True, limit=2 * PART_BYTES):
    producer = log.producer(f"{application_id}-writer")
    producer.init()
    producer.begin()
    producer.produce(row for record in records for row in rows_of(of(application_id, record), 1, limit))
    producer.commit() if commit else producer.abort()
    producer.close()


def test_there_is_no_last_record_before_the_topic_is_made():
    assert read_last(MemoryLog(), "shop") is None


def test_there_is_no_last_record_before_the_first_epoch():
    log = MemoryLog()
    log.admin.ensure_topics([epochs_topic("shop")])
    assert read_last(log, "shop") is None


def test_the_last_record_is_that_of_the_last_committed_epoch():
    log = MemoryLog()
    log.admin.ensure_topics([epochs_topic("shop")])
    write(log, "shop", a_record(1), a_record(2))
    write(log, "shop", a_record(3), commit=False)
    assert read_last(log, "shop") == a_record(2)


def test_a_record_of_the_version_before_is_read():
    log = MemoryLog()
    log.admin.ensure_topics([epochs_topic("shop")])
    producer = log.producer(None)
    producer.produce([("shop-epochs", 0, KEY, encode(large_record(7)), 1, ())])
    assert read_last(log, "shop") == large_record(7)


@pytest.mark.parametrize("form", ["whole", "split"])
def test_records_that_were_written_once_are_read_for_ever(form):
    golden = json.loads((Path(__file__).parents[1] / "golden" / "epoch_record.json").read_text())
    rows = [[KEY.decode(), base64.b64encode(golden["whole"].encode())]] if form == "whole" else golden["split"]
    log = MemoryLog()
    log.admin.ensure_topics([epochs_topic("shop")])
    log.producer(None).produce(("shop-epochs", 0, key.encode(), base64.b64decode(value), 1, ()) for key, value in rows)
    assert read_last(log, "shop") == RECORD


def large_record(epoch: int, shards: int = 8, partitions: int = 1000) -> EpochRecord:
    """The record of a windowed count, as it is with a clock of all partitions in every shard: larger than a topic takes."""
    random = Random(epoch)
    shots = {
        str(shard): {"clocks": {"COUNT": [[n, random.randrange(10**12)] for n in range(partitions)]}}
        for shard in range(shards)
    }
    return msgspec.structs.replace(a_record(epoch), shards=shards, snapshots={"0": shots})


def test_a_large_record_is_written_in_rows_that_the_topic_takes_and_read_whole():
    log, record = MemoryLog(), large_record(1, shards=64, partitions=2000)
    assert len(encode(record)) > 2_000_000
    rows = rows_of(record, 1)
    assert len(rows) > 2
    assert max(len(value) for _, _, _, value, _, _ in rows) <= PART_BYTES
    log.admin.ensure_topics([epochs_topic("shop")])
    write(log, "shop", record)
    assert read_last(log, "shop") == record


@pytest.mark.parametrize("limit", [1000, 20_000, 10**6])
def test_rows_are_as_small_as_the_topic_wants_them(limit):
    rows = rows_of(large_record(1), 1, limit)
    assert all(len(row[2]) + len(row[3]) < limit for row in rows)
    assert [row[2] for row in rows] == [*(b"epoch/%d" % n for n in range(len(rows) - 1)), KEY]


def test_a_small_record_is_one_row_that_versions_before_can_read():
    ((topic, partition, key, value, _, _),) = rows_of(a_record(), 1)
    assert (topic, partition, key, decode(value)) == ("shop-epochs", 0, KEY, a_record())


def test_large_and_small_records_follow_each_other_and_aborted_ones_do_not_count():
    log = MemoryLog()
    log.admin.ensure_topics([epochs_topic("shop")])
    for epoch, record in enumerate(
        [large_record(1), a_record(2), large_record(3, partitions=3000), large_record(4)], 1
    ):
        write(log, "shop", large_record(9), commit=False, limit=50_000)
        write(log, "shop", record, limit=50_000)
        assert read_last(log, "shop") == record
        assert record.epoch == epoch


@pytest.mark.parametrize("damage", ["lost", "changed", "other epoch"])
def test_a_record_whose_parts_are_not_its_own_is_refused(damage):
    log = MemoryLog()
    log.admin.ensure_topics([epochs_topic("shop")])
    rows = rows_of(large_record(1), 1, 50_000)
    if damage == "lost":
        del rows[1]
    elif damage == "changed":
        rows[1] = (*rows[1][:3], b"\0" + rows[1][3][1:], *rows[1][4:])
    else:
        rows[0] = rows_of(large_record(2), 1, 50_000)[0]
    producer = log.producer(None)
    producer.produce(rows)
    with pytest.raises(RecoveryError, match=r"cannot be read: parts of it are missing.*penstock reset"):
        read_last(log, "shop")


def test_the_last_record_in_a_real_log(kafka_broker):
    log = KafkaLog(kafka_broker.bootstrap_servers, timeout=30)
    try:
        assert read_last(log, "record-shop") is None
        log.admin.ensure_topics([epochs_topic("record-shop")])
        assert read_last(log, "record-shop") is None
        write(log, "record-shop", a_record(1), a_record(2))
        write(log, "record-shop", a_record(3), commit=False)
        assert read_last(log, "record-shop") == of("record-shop", a_record(2))
        large = of("record-shop", large_record(4, 64, 2000))
        write(log, "record-shop", large)
        write(log, "record-shop", a_record(5), commit=False)
        assert read_last(log, "record-shop") == large
    finally:
        log.admin.delete_topics(["record-shop-epochs"])
        log.close()
