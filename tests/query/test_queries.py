"""Queries of every kind in the test driver: what is asked, answered, and said about a wrong question."""

import pytest

from penstock import (
    BadKey,
    KeyQuery,
    MultiVersionedKeyQuery,
    NotUpToBound,
    PrefixQuery,
    Processor,
    QueryError,
    RangeQuery,
    Serdes,
    SessionQuery,
    SessionWindows,
    SnapshotClosed,
    Stores,
    StreamsBuilder,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    TimeWindows,
    UnknownStore,
    ValueAndTimestamp,
    VersionedKeyQuery,
    VersionedRecord,
    Windowed,
    WindowKeyQuery,
    WindowRangeQuery,
    WrongQuery,
)
from penstock.testing import TopologyTestDriver

KEYS = [f"k{n:02}" for n in range(40)]


def topology():
    builder = StreamsBuilder()
    numbers = builder.stream("numbers", value=Serdes.int64)
    grouped = numbers.group_by_key()
    grouped.reduce(lambda a, b: a + b, store="sums")
    grouped.windowed_by(TimeWindows(100, grace=1000)).count(store="windows")
    grouped.windowed_by(SessionWindows(50, grace=1000)).count(store="sessions")
    builder.table("prices", value=Serdes.int64, store=Stores.versioned("versions", history=10_000))
    builder.global_table("names", value=Serdes.string, store="names")
    return builder


@pytest.fixture(params=["memory", "lmdb"])
def driver(request, tmp_path):
    config = {} if request.param == "memory" else {"state_dir": str(tmp_path)}
    with TopologyTestDriver(topology(), config=config, lanes=2) as made:
        numbers = made.input_topic("numbers", value=Serdes.int64)
        for place, key in enumerate(KEYS):
            numbers.pipe(key, place, timestamp=place * 10)
        prices = made.input_topic("prices", value=Serdes.int64)
        for time in (100, 200, 300):
            prices.pipe("pear", time, timestamp=time)
        made.input_topic("names", value=Serdes.string).pipe("de", "Germany", timestamp=1)
        yield made


def test_a_key(driver):
    found = driver.query("sums", KeyQuery("k07"))
    assert (found.value, found.found) == (7, True)
    missing = driver.query("sums", KeyQuery("nobody"))
    assert (missing.value, missing.found) == (None, False)
    assert driver.query("sums", TimestampedKeyQuery("k07")).value == ValueAndTimestamp(7, 70)
    assert driver.query("names", KeyQuery("de")).value == "Germany"


def test_a_range_is_in_the_order_of_keys_over_all_shards(driver):
    assert list(driver.query("sums", RangeQuery())) == [(key, n) for n, key in enumerate(KEYS)]
    assert [key for key, _ in driver.query("sums", RangeQuery("k05", "k08"))] == ["k05", "k06", "k07", "k08"]
    assert [key for key, _ in driver.query("sums", RangeQuery("k38", reverse=True))] == ["k39", "k38"]
    assert [key for key, _ in driver.query("sums", RangeQuery(reverse=True))] == KEYS[::-1]
    assert list(driver.query("sums", TimestampedRangeQuery(upper="k00"))) == [("k00", ValueAndTimestamp(0, 0))]
    assert [key for key, _ in driver.query("sums", PrefixQuery("k3"))] == KEYS[30:]
    assert list(driver.query("names", RangeQuery())) == [("de", "Germany")]


def test_windows_sessions_and_versions(driver):
    assert list(driver.query("windows", WindowKeyQuery("k11", 0, 1000))) == [(100, ValueAndTimestamp(1, 110))]
    starts = [(key.key, key.start) for key, _ in driver.query("windows", WindowRangeQuery(0, 100))]
    assert starts == [(key, place // 10 * 100) for place, key in enumerate(KEYS[:20])]
    assert list(driver.query("sessions", SessionQuery("k03"))) == [(Windowed("k03", 30, 30), 1)]
    assert driver.query("versions", VersionedKeyQuery("pear")).value == VersionedRecord(300, 300, None)
    assert driver.query("versions", VersionedKeyQuery("pear", as_of=250)).value == VersionedRecord(200, 200, 300)
    assert [version.value for version in driver.query("versions", MultiVersionedKeyQuery("pear", 150, 250))] == [
        100,
        200,
    ]
    newest = driver.query("versions", MultiVersionedKeyQuery("pear", reverse=True))
    assert [version.value for version in newest] == [300, 200, 100]


def test_found_tells_of_rows_without_losing_one(driver):
    with driver.query("sums", RangeQuery("k38")) as rows:
        assert rows.found
        assert rows.found
        assert [key for key, _ in rows] == ["k38", "k39"]
    assert not driver.query("sums", RangeQuery("z")).found


@pytest.mark.parametrize(
    ("store", "query", "error", "says"),
    [
        ("sum", KeyQuery("a"), UnknownStore, "did you mean 'sums'"),
        ("sums", WindowKeyQuery("a", 0, 1), WrongQuery, r"write KeyQuery\(key\)"),
        ("windows", KeyQuery("a"), WrongQuery, r"write WindowKeyQuery\(key, since, until\)"),
        ("sessions", WindowRangeQuery(0, 1), WrongQuery, r"write SessionQuery\(key\)"),
        ("versions", KeyQuery("a"), WrongQuery, r"write VersionedKeyQuery\(key, as_of\)"),
        ("sums", "k01", WrongQuery, "is not a query"),
        ("sums", KeyQuery(5), BadKey, "refused the key 5"),
        ("sums", KeyQuery(None), BadKey, "must not be None"),
        ("sums", RangeQuery(5, "a"), BadKey, "refused the key 5"),
        ("windows", WindowRangeQuery("now", 5), WrongQuery, "since is a time in milliseconds"),
    ],
)
def test_a_wrong_question_is_told_what_to_ask(driver, store, query, error, says):
    with pytest.raises(error, match=says):
        driver.query(store, query)


def test_a_store_without_timestamps_has_none_to_give():
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("plain"))
    builder.stream("in").process(Keep, stores=["plain"])
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1, timestamp=1)
        assert driver.query("plain", KeyQuery("a")).value == 1
        with pytest.raises(WrongQuery, match="without timestamps"):
            driver.query("plain", TimestampedKeyQuery("a"))


class Keep:
    def init(self, context):
        self.store = context.store("plain")

    def process(self, record):
        self.store.put(record.key, record.value)

    def close(self):
        pass


def test_an_answer_says_where_it_is_of_and_a_bound_is_kept(driver):
    found = driver.query("sums", KeyQuery("k00"))
    assert found.position == {("numbers", 0): 39, ("prices", 0): 2, ("names", 0): 0}
    assert driver.query("sums", KeyQuery("k00"), at_least=found.position).value == 0
    with pytest.raises(NotUpToBound, match="numbers-0 is at 39, asked for 40"):
        driver.query("sums", KeyQuery("k00"), at_least={("numbers", 0): 40})
    with pytest.raises(QueryError, match="does not read; it reads"):
        driver.query("sums", KeyQuery("k00"), at_least={("number", 0): 1})


def test_a_value_is_no_rows_and_rows_are_no_value(driver):
    with pytest.raises(QueryError, match="gives rows"):
        _ = driver.query("sums", RangeQuery()).value
    with pytest.raises(QueryError, match="one value"):
        list(driver.query("sums", KeyQuery("k00")))


def test_a_snapshot_does_not_move(driver):
    numbers = driver.input_topic("numbers", value=Serdes.int64)
    with driver.snapshot() as before:
        rows = before.query("sums", RangeQuery())
        assert next(rows) == ("k00", 0)
        for key in KEYS:
            numbers.pipe(key, 1000, timestamp=500)
        assert before.store("sums").get("k05") == 5
        assert [value for _, value in rows] == list(range(1, 40))
        assert driver.query("sums", KeyQuery("k05")).value == 1005
        assert driver.query("sums", KeyQuery("k05")).epoch > before.epoch
    with pytest.raises(SnapshotClosed, match="Take a new one"):
        before.store("sums").get("k05")


def test_a_scan_of_a_closed_snapshot_gives_no_more_rows(driver):
    with driver.snapshot() as snapshot:
        rows = snapshot.query("sums", RangeQuery())
        next(rows)
    with pytest.raises(SnapshotClosed):
        next(rows)


def test_each_key_is_in_the_shard_that_is_told(driver):
    shards = {key: driver.metadata_for_key("sums", key) for key in KEYS}
    assert len({place.shard for place in shards.values()}) > 8
    assert all(place.lane == place.shard % 2 for place in shards.values())
    assert driver.metadata_for_key("names", "de").shard is None


class Keeps(Processor):
    def process(self, record):
        self.context.store("kept").put(record.key, record.value)


def test_a_key_whose_shard_a_partitioner_chose_is_looked_for_in_all():
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("kept", value=Serdes.int64))
    numbers = builder.stream("numbers", value=Serdes.int64)
    spread = numbers.repartition(partitioner=lambda topic, key, value, partitions: value % partitions)
    spread.process(Keeps, stores=["kept"])
    with TopologyTestDriver(builder) as driver:
        assert driver.metadata_for_key("kept", "k05").shard is None
        for place, key in enumerate(KEYS):
            driver.input_topic("numbers", value=Serdes.int64).pipe(key, place, timestamp=place)
        found = {key: driver.query("kept", KeyQuery(key)).value for key in (*KEYS, "nobody")}
    assert found == {**{key: place for place, key in enumerate(KEYS)}, "nobody": None}


def test_records_that_wait_are_not_part_of_the_barrier():
    with TopologyTestDriver(topology(), auto_commit=False) as driver:
        numbers = driver.input_topic("numbers", value=Serdes.int64)
        numbers.pipe("a", 1, timestamp=1)
        assert driver.query("sums", KeyQuery("a")).position == {}
        driver.commit()
        found = driver.query("sums", KeyQuery("a"))
        assert (found.value, found.position) == (1, {("numbers", 0): 0})
