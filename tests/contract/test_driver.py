"""penstock.testing: the driver, its handles, lanes, partitions and open epochs."""

from datetime import timedelta

import pytest

import penstock.testing
from penstock import Record, Serdes, Stores, StreamsBuilder, TimeWindows, Windowed
from penstock.testing import TopologyTestDriver


def counting(**options):
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(store=Stores.key_value("counts", **options)).to_stream().to(
        "out", value=Serdes.int64
    )
    return builder


def out(driver):
    return driver.output_topic("out", value=Serdes.int64)


def test_it_takes_a_builder_or_a_topology():
    for given in (counting(), counting().build()):
        with TopologyTestDriver(given) as driver:
            driver.input_topic("in").pipe("a", 1)
            assert out(driver).read_values() == [1]
    assert "TopologyTestDriver" in penstock.testing.__all__


def test_it_works_without_with():
    driver = TopologyTestDriver(counting())
    driver.input_topic("in").pipe("a", 1)
    assert out(driver).read() == Record("a", 1, 0)
    driver.close()
    driver.close()
    with pytest.raises(Exception, match="closed"):
        driver.input_topic("in").pipe("a", 1)


def test_reading():
    with TopologyTestDriver(counting()) as driver:
        topic = out(driver)
        assert topic.read() is None
        assert topic.read_all() == []
        assert topic.read_values() == []
        assert topic.read_table() == {}
        driver.input_topic("in").pipe_all([("a", 1), ("b", 1), ("a", 1)], start=100, step=10)
        assert topic.read() == Record("a", 1, 100)
        assert topic.read_all() == [Record("b", 1, 110), Record("a", 2, 120)]
        assert topic.read() is None


def test_what_was_read_is_read_whichever_handle_asks():
    with TopologyTestDriver(counting()) as driver:
        driver.input_topic("in").pipe("a", 1)
        assert out(driver).read_values() == [1]
        driver.input_topic("in").pipe("a", 1)
        assert out(driver).read_values() == [2]
        assert out(driver).read() is None


def test_a_table_of_what_was_written_leaves_out_what_was_deleted():
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("b", 2), ("a", None), ("c", 0)], start=0, step=0)
        assert driver.output_topic("out").read_table() == {"b": 2, "c": 0}


def test_times_of_piped_records():
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with TopologyTestDriver(builder, start=1_000) as driver:
        source = driver.input_topic("in")
        source.pipe("a", 1)
        driver.advance_wall_clock(500)
        source.pipe("a", 2)
        driver.advance_wall_clock(timedelta(seconds=1))
        source.pipe("a", 3)
        source.pipe("a", 4, timestamp=7)
        source.pipe_all([("a", 5), ("a", 6)], start=10, step=timedelta(milliseconds=5))
        source.pipe_all([("a", 7)], 20, 1)
        assert [r.timestamp for r in driver.output_topic("out").read_all()] == [1_000, 1_500, 2_500, 7, 10, 15, 20]


def test_topics_that_were_written():
    with TopologyTestDriver(counting(), config={"application_id": "app"}) as driver:
        assert set(driver.topics()) == set()
        driver.input_topic("in").pipe("a", 1)
        assert set(driver.topics()) == {"out", "app-counts-changelog"}


def test_metrics_count():
    with TopologyTestDriver(counting()) as driver:
        driver.input_topic("in").pipe_all([("a", 1), (None, 1), ("a", None)], start=0, step=0)
        metrics = driver.metrics()
        assert metrics["records_in"] == 3
        assert metrics["dropped_records"] == 2


def test_an_unknown_topic_or_store_says_the_nearest():
    with TopologyTestDriver(counting()) as driver:
        with pytest.raises(Exception, match="in"):
            driver.input_topic("inn")
        with pytest.raises(Exception, match="counts"):
            driver.store("count")


def test_wrong_options_are_refused():
    with pytest.raises(Exception, match="lanes"):
        TopologyTestDriver(counting(), lanes=0)
    with pytest.raises(Exception, match="partitions"):
        TopologyTestDriver(counting(), partitions=0)
    with pytest.raises(Exception, match="lanes"):
        TopologyTestDriver(counting(), lane=2)
    with pytest.raises(Exception, match="partition"), TopologyTestDriver(counting(), partitions=2) as driver:
        driver.input_topic("in").pipe("a", 1, partition=2)
    with pytest.raises(Exception, match=r"(?i)topology|builder"):
        TopologyTestDriver("in")


def test_a_barrier_follows_every_record_so_a_cache_hides_nothing():
    with TopologyTestDriver(counting(cached=True)) as driver:
        driver.input_topic("in").pipe_all([("a", 1)] * 3, start=0, step=1)
        assert out(driver).read_values() == [1, 2, 3]


@pytest.mark.parametrize("by_attribute", [False, True])
def test_an_open_epoch_shows_the_last_value_of_each_key_of_a_cache(by_attribute):
    driver = (
        TopologyTestDriver(counting(cached=True))
        if by_attribute
        else TopologyTestDriver(counting(cached=True), auto_commit=False)
    )
    with driver:
        driver.auto_commit = False
        driver.input_topic("in").pipe_all([("a", 1), ("b", 1), ("a", 1)], start=0, step=1)
        assert out(driver).read() is None
        driver.commit()
        assert sorted(out(driver).read_all(), key=lambda record: record.timestamp) == [
            Record("b", 1, 1),
            Record("a", 2, 2),
        ]
        driver.input_topic("in").pipe("a", 1, timestamp=9)
        driver.commit()
        assert out(driver).read_all() == [Record("a", 3, 9)]


def test_an_open_epoch_without_a_cache_shows_every_update_at_its_end():
    with TopologyTestDriver(counting(cached=False), auto_commit=False) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("a", 1)], start=0, step=1)
        driver.commit()
        assert out(driver).read_values() == [1, 2]


def test_an_open_epoch_goes_through_repartitions():
    builder = StreamsBuilder()
    builder.stream("in").group_by(lambda k, v: v).count(store="n").to_stream().to("out", value=Serdes.int64)
    with TopologyTestDriver(builder, auto_commit=False, lanes=3, partitions=2) as driver:
        for index in range(10):
            driver.input_topic("in").pipe(
                str(index), "even" if index % 2 == 0 else "odd", timestamp=index, partition=index % 2
            )
        driver.commit()
        assert out(driver).read_table() == {"even": 5, "odd": 5}
        assert driver.store("n").get("even") == 5


@pytest.mark.parametrize("lanes", [1, 2, 5])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("every", [1, 7, 1000])
def test_results_do_not_depend_on_lanes_partitions_and_barriers(lanes, partitions, every):
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by(lambda k, v: v["group"])
    grouped.aggregate(
        list, lambda k, v, agg: sorted([*agg, v["n"]]), store=Stores.key_value("all", cached=False)
    ).to_stream().to("out")
    grouped.windowed_by(TimeWindows(10, grace=100)).count(store="windows")
    with TopologyTestDriver(builder, lanes=lanes, partitions=partitions, auto_commit=False) as driver:
        for n in range(60):
            driver.input_topic("in").pipe(
                str(n % 11), {"group": f"g{n % 4}", "n": n}, timestamp=n, partition=n % partitions
            )
            if n % every == every - 1:
                driver.commit()
        driver.commit()
        assert driver.output_topic("out").read_table() == {
            f"g{g}": [n for n in range(60) if n % 4 == g] for g in range(4)
        }
        assert driver.store("windows").fetch("g1", 10) == sum(1 for n in range(10, 20) if n % 4 == 1)


def test_epoch_with_wall_clock_and_suppress():
    from penstock import Suppressed

    builder = StreamsBuilder()
    table = builder.stream("in").group_by_key().windowed_by(TimeWindows(10)).count()
    table.suppress(Suppressed.until_window_closes()).to_stream(key=lambda w, v: w.key).to("out", value=Serdes.int64)
    with TopologyTestDriver(builder, auto_commit=False, lanes=2) as driver:
        for t in (1, 2, 3, 11, 25):
            driver.input_topic("in").pipe("a", 1, timestamp=t)
        driver.advance_wall_clock(1000)
        driver.commit()
        driver.commit()
        assert out(driver).read_values() == [3, 1]


def test_a_topic_that_is_written_and_read_goes_round():
    builder = StreamsBuilder()
    builder.stream("in").map_values(lambda v: v + 1).to("middle")
    builder.stream("middle").filter(lambda k, v: v < 5).to("in")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 0)
        assert driver.output_topic("middle").read_values() == [1, 2, 3, 4, 5]


def test_state_is_kept_in_a_folder_until_the_driver_is_closed(tmp_path):
    for _ in range(2):
        with TopologyTestDriver(counting(), config={"state_dir": str(tmp_path)}, lanes=2) as driver:
            driver.input_topic("in").pipe_all([("a", 1), ("a", 1)], start=0, step=1)
            assert driver.store("counts").get("a") == 2
            assert out(driver).read_values() == [1, 2]
            assert list(tmp_path.iterdir()) != []
        assert list(tmp_path.iterdir()) == []


def test_an_output_topic_is_read_with_the_serdes_it_is_written_with():
    builder = StreamsBuilder()
    counts = builder.stream("in").group_by_key().windowed_by(TimeWindows(10)).count()
    counts.to_stream().to("windows")
    counts.to_stream(key=lambda w, v: w.key).to(lambda key, value, context: f"of-{key}")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1, timestamp=12)
        assert driver.output_topic("windows").read() == Record(Windowed("a", 10, 20), 1, 12)
        assert driver.output_topic("of-a").read() == Record("a", 1, 12)


def test_reading_with_the_wrong_serde_says_what_to_do():
    with TopologyTestDriver(counting()) as driver:
        driver.input_topic("in").pipe("a", 1)
        with pytest.raises(Exception, match=r"(?s)out.*Serdes\.json.*value="):
            driver.output_topic("out", value=Serdes.json).read()


def test_headers_are_pairs_or_a_mapping_of_bytes():
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1, headers={"h": b"x"})
        assert driver.output_topic("out").read().headers == (("h", b"x"),)
        with pytest.raises(Exception, match="bytes"):
            driver.input_topic("in").pipe("a", 1, headers=[("h", "x")])
        with pytest.raises(Exception, match="pairs"):
            driver.input_topic("in").pipe("a", 1, headers=["h"])


def test_lanes_may_come_with_the_configuration():
    with TopologyTestDriver(counting(), config={"lanes": 3}) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("b", 1), ("a", 1)], start=0, step=1)
        assert driver.store("counts").get("a") == 2


def test_a_store_says_which_verbs_it_has():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().windowed_by(TimeWindows(10)).count(store="w")
    with TopologyTestDriver(builder) as driver:
        assert not hasattr(driver.store("w"), "get")
        with pytest.raises(Exception, match=r"window store.*fetch"):
            driver.store("w").get("a")
