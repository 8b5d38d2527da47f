"""The epoch's record: what is written can be read again, and nothing else is taken for one."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.record import FORMAT, KEY, Clocks, EpochRecord, decode, encode, nested, pack, read_last, unpack
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
    data = msgspec.json.encode({"format": FORMAT + 1, "something": "else"})
    with pytest.raises(RecoveryError, match=rf"has format {FORMAT + 1}, this version .* reads format {FORMAT}.*newer"):
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


def write(log, application_id, *records, commit=True):
    producer = log.producer(f"{application_id}-writer")
    producer.init()
    producer.begin()
    producer.produce([(f"{application_id}-epochs", 0, KEY, encode(record), 1, ()) for record in records])
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


def test_the_last_record_in_a_real_log(kafka_broker):
    log = KafkaLog(kafka_broker.bootstrap_servers, timeout=30)
    try:
        assert read_last(log, "record-shop") is None
        log.admin.ensure_topics([epochs_topic("record-shop")])
        assert read_last(log, "record-shop") is None
        write(log, "record-shop", a_record(1), a_record(2))
        write(log, "record-shop", a_record(3), commit=False)
        assert read_last(log, "record-shop") == a_record(2)
    finally:
        log.admin.delete_topics(["record-shop-epochs"])
        log.close()
