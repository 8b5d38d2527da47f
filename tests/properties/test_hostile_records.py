"""Records of random bytes: whatever they are, the policy is asked, nothing is lost in silence, and a dead letter is the record."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import DeserializationError, Serdes, StreamsBuilder
from penstock.record import raw_name
from penstock.testing import TopologyTestDriver

some_bytes = st.none() | st.binary(max_size=12) | st.sampled_from([b"", b"\xff", b"1", b"{}", bytes(8), b'{"n": 1}'])
names = st.binary(max_size=4) | st.just(b"h")
#: key, value, names and values of headers
records = st.lists(
    st.tuples(some_bytes, some_bytes, st.lists(st.tuples(names, st.none() | st.binary(max_size=3)), max_size=2)),
    max_size=20,
)
RAW = {"key": Serdes.bytes, "value": Serdes.bytes}
SERDES = {
    "bytes": Serdes.bytes,
    "string": Serdes.string,
    "int64": Serdes.int64,
    "json": Serdes.json,
}


def program(serde):
    """A stream, and the same behind a re-key with a count: what is read is sent on once each way."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=serde, value=serde, name="source")
    stream.map(lambda key, value: (b"k", b"v")).to("out", **RAW)
    builder.global_table("lookup", key=serde, value=serde, store="lookup")
    return builder.build()


def is_read(serde, key, value, headers):
    for name, _ in headers:
        try:
            name.decode()
        except UnicodeDecodeError:
            return False
    for data in (key, value):
        try:
            if data is not None:
                serde.deserialize(data)
        except Exception:
            return False
    return True


@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
@pytest.mark.parametrize("serde", SERDES.values(), ids=SERDES.keys())
@settings(max_examples=40)
@given(given_records=records)
def test_any_bytes_are_read_or_judged(serde, policy, given_records):
    good = [is_read(serde, *record) for record in given_records]
    config = {"on_deserialization_error": policy, "dead_letter_topic": "dead"}
    with TopologyTestDriver(program(serde), config=config) as driver:
        for topic in ("lookup", "in"):
            sent = driver.input_topic(topic, **RAW)
            for at, (key, value, headers) in enumerate(given_records):
                text = [(name.decode("utf-8", "surrogateescape"), data) for name, data in headers]
                if policy != "fail" or good[at]:
                    sent.pipe(key, value, at, headers=text)
                    continue
                with pytest.raises(DeserializationError, match=f"{topic}-0@{sum(good[:at])}"):
                    sent.pipe(key, value, at, headers=text)
                return
        driver.commit()
        assert len(driver.output_topic("out", **RAW).read_all()) == sum(good)
        letters = driver.output_topic("dead", **RAW).read_all()
        bad = [record for record, read in zip(given_records, good, strict=True) if not read]
        told = Counter(
            (letter.key, letter.value, *(raw_name(name) for name, _ in letter.headers if "errors" not in name))
            for letter in letters
        )
        # of both topics: that of the stream, and that of the global table
        wanted = Counter((key, value, *(name for name, _ in headers)) for key, value, headers in [*bad, *bad])
        assert told == (wanted if policy == "dead_letter" else Counter())
