"""What the test driver does by default is what production does: shards, lifetimes, refusals, configuration."""

import pytest

from penstock import (
    FixedKeyProcessor,
    LatePolicy,
    Processor,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    TimeWindows,
    ValueTransformer,
    WatermarkStrategy,
)
from penstock.config import load
from penstock.errors import ConfigError, DeserializationError, ProcessingError, TopologyError
from penstock.state.shards import shard_of
from penstock.testing import TopologyTestDriver

KAFKA = {"shards": 1, "keep_processors": True}
#: keys of one shard of sixteen, and one of another
HERE, BESIDE = [key for key in map(str, range(100)) if shard_of(key.encode(), 16) == 3][:2]
ELSEWHERE = next(key for key in map(str, range(100)) if shard_of(key.encode(), 16) != 3)


def made(body, base=Processor, **hooks):
    """Return a class whose ``process`` is the given function of (self, record)."""
    return type("Made", (base,), {"process": body, **hooks})


def run(supplier, records, *, stores=(), **how):
    builder = StreamsBuilder()
    builder.stream("in").process(supplier, stores=stores, name="p").to("out")
    with TopologyTestDriver(builder, **how) as driver:
        for record in records:
            driver.input_topic("in").pipe(*record)
        driver.commit()
        return [(record.key, record.value) for record in driver.output_topic("out").read_all()]


# ---- lifetimes


class Fields(Processor):
    """Counts in a field of its own, and in a store."""

    def init(self, context):
        super().init(context)
        self.count = 0
        context.schedule(10, PunctuationType.STREAM_TIME, lambda now: None)

    def process(self, record):
        self.count += 1
        stored = self.context.store("counts").compute(record.key, lambda key, old: (old or 0) + 1)
        self.context.forward(record.with_value([self.count, stored]))


@pytest.mark.parametrize(
    ("how", "fields"),
    [({}, [1, 1, 1]), ({"auto_commit": False}, [1, 2, 3]), ({"keep_processors": True}, [1, 2, 3])],
    ids=["a barrier a record", "one epoch", "kept"],
)
def test_a_field_of_a_processor_lives_for_one_epoch_and_a_row_of_a_store_stays(how, fields):
    rows = run(Fields, [("a", 0, at) for at in range(3)], stores=[Stores.key_value("counts")], **how)
    assert rows == [("a", [field, number]) for number, field in enumerate(fields, 1)]


def test_a_processor_that_did_nothing_in_an_epoch_is_not_made_again():
    lives = []
    life = made(
        lambda self, record: lives.append((self.shard, "process")),
        init=lambda self, context: setattr(self, "shard", context.shard) or lives.append((self.shard, "init")),
        close=lambda self: lives.append((self.shard, "close")),
    )
    run(life, [(HERE, 0, 0), (BESIDE, 0, 1)])
    assert [what for shard, what in lives if shard == 3] == ["init", "process", "close", "init", "process", "close"]
    assert [what for shard, what in lives if shard == 4] == ["init", "close"]


def test_punctuators_and_timers_go_on_over_epochs():
    class Wakes(Processor):
        def init(self, context):
            super().init(context)
            beat = lambda now: context.forward(Record(f"beat {context.shard}", now, now))  # noqa: E731
            context.schedule(10, PunctuationType.STREAM_TIME, beat)

        def process(self, record):
            self.context.timers.register_event_time(record.key, record.timestamp + 15)

        def on_timer(self, timestamp, key, context):
            context.forward(Record("timer", timestamp, timestamp))

    rows = run(Wakes, [(HERE, 0, at) for at in (0, 9, 12, 30)], stores=[Stores.timers("t")])
    assert [at for what, at in rows if what == "timer"] == [15, 24, 27]
    assert [at for what, at in rows if what == "beat 3"] == [0, 12, 30]


def test_a_schedule_outside_of_init_is_refused_but_not_by_kafkas_driver():
    late = made(lambda self, record: self.context.schedule(10, PunctuationType.STREAM_TIME, print) and None)
    with pytest.raises(ProcessingError, match=r"calls schedule\(\) outside of init") as caught:
        run(late, [("a", 0, 0)])
    assert isinstance(caught.value.__cause__, TopologyError)
    assert run(late, [("a", 0, 0)], **KAFKA) == []


def test_a_view_of_a_store_shows_the_last_barrier_over_all_shards():
    look = made(lambda self, record: self.context.forward(record.with_value(sorted(self.context.view("n").all()))))
    builder = StreamsBuilder()
    builder.stream("words").group_by_key().count(store="n")
    builder.stream("in").process(look).to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("words").pipe_all([(HERE, 1), (ELSEWHERE, 1), (HERE, 1)])
        driver.input_topic("in").pipe("q", 0)
        assert driver.output_topic("out").read_values() == [sorted([[HERE, 2], [ELSEWHERE, 1]])]


def test_a_store_that_a_test_holds_shows_what_later_epochs_have_written():
    with TopologyTestDriver(StreamsBuilderOf(Fields)) as driver:
        store = driver.store("counts")
        store.put("a", 40)
        for at in range(2):
            driver.input_topic("in").pipe("a", 0, at)
        assert store.get("a") == 42
        store.put("a", 50)
        driver.input_topic("in").pipe("a", 0, 2)
        assert store.get("a") == 51


def StreamsBuilderOf(supplier):
    builder = StreamsBuilder()
    builder.stream("in").process(supplier, stores=[Stores.key_value("counts")]).to("out")
    return builder


# ---- resources and configuration


def test_a_resource_is_made_once_and_closed_with_the_driver():
    told = []

    def make():
        told.append("made")
        return {"calls": 0}

    class Uses(Processor):
        def init(self, context):
            super().init(context)
            self.model = context.resource("model", make, close=lambda model: told.append(model["calls"]))

        def process(self, record):
            self.model["calls"] += 1

    run(Uses, [(HERE, 0, 0), (ELSEWHERE, 0, 1), (HERE, 0, 2)])
    assert told == ["made", 3]


def test_a_processor_sees_the_whole_configuration_and_what_the_user_gave():
    class Tells(Processor):
        def process(self, record):
            config = self.context.config
            names = ("application_id", "shards", "lanes", "on_processing_error", "commit_interval_ms")
            self.context.forward(record.with_value([config[name] for name in names] + [config["user_config"]["rate"]]))

    (row,) = run(Tells, [("a", 0, 0)], config={"application_id": "shop", "user_config": {"rate": 3}}, lanes=2)
    assert row == ("a", ["shop", 16, 2, "fail", 100, 3])


def test_a_user_config_that_cannot_travel_is_refused():
    with pytest.raises(ConfigError, match=r"'open' cannot travel to the workers .* context.resource"):
        TopologyTestDriver(StreamsBuilderOf(Fields), config={"user_config": {"open": lambda: None}})
    with pytest.raises(ConfigError, match="must be a mapping of names to values"):
        TopologyTestDriver(StreamsBuilderOf(Fields), config={"user_config": 3})


# ---- scope of stores

SPECS = {
    "key_value": (Stores.key_value("s"), [("get",), ("put", 1), ("delete",), ("put_if_absent", 1), ("merge", 1, max)]),
    "lru": (Stores.lru("s", 5), [("get",), ("put", 1)]),
    "window": (Stores.window("s", 100, 10), [("put", 1, 0), ("fetch", 0), ("fetch", 0, 10), ("backward_fetch", 0, 10)]),
    "session": (Stores.session("s", 100), [("fetch",), ("find_sessions", 0, 10), ("fetch_session", 0, 5)]),
    "versioned": (Stores.versioned("s", 100), [("get",), ("put", 1, 0), ("delete", 0)]),
}


@pytest.mark.parametrize(("spec", "calls"), SPECS.values(), ids=SPECS)
def test_a_key_of_another_shard_is_refused_with_the_remedy(spec, calls):
    def process(self, record):
        for verb, *rest in calls:
            getattr(self.context.store("s"), verb)(record.value, *rest)

    for key in (HERE, BESIDE):
        run(made(process), [(HERE, key, 0)], stores=[spec])
    with pytest.raises(ProcessingError, match=r"(?s)key '.*' of the store 's' in shard 3.*Stores.shared.*context.view"):
        run(made(process), [(HERE, ELSEWHERE, 0)], stores=[spec])
    run(made(process), [(HERE, ELSEWHERE, 0)], stores=[spec], **KAFKA)


def test_rows_that_are_iterated_are_those_of_the_shard():
    def process(self, record):
        store = self.context.store("s")
        store.put(record.key, record.value)
        self.context.forward(record.with_value(sorted(store.all()) + sorted(store.range(None, None))))

    rows = run(made(process), [(HERE, 1, 0), (ELSEWHERE, 2, 1), (BESIDE, 3, 2)], stores=[Stores.key_value("s")])
    assert rows[1] == (ELSEWHERE, [[ELSEWHERE, 2]] * 2)
    assert rows[2] == (BESIDE, sorted([[HERE, 1], [BESIDE, 3]]) * 2)


def test_put_all_writes_nothing_if_one_key_is_of_another_shard():
    def process(self, record):
        self.context.store("s").put_all({HERE: 1, record.value: 2})

    builder = StreamsBuilder()
    builder.stream("in").process(made(process), stores=[Stores.key_value("s")])
    with TopologyTestDriver(builder, config={"on_processing_error": "skip"}) as driver:
        driver.input_topic("in").pipe(HERE, ELSEWHERE)
        assert list(driver.store("s").all()) == []
        driver.input_topic("in").pipe(HERE, BESIDE)
        assert len(list(driver.store("s").all())) == 2


def test_a_timer_for_a_key_of_another_shard_is_refused():
    def process(self, record):
        self.context.timers.register_event_time(record.value, 10)

    supplier = made(process, on_timer=lambda self, timestamp, key, context: None)
    run(supplier, [(HERE, BESIDE, 0)], stores=[Stores.timers("t")])
    with pytest.raises(ProcessingError, match=r"key '.*' of the store 't'"):
        run(supplier, [(HERE, ELSEWHERE, 0)], stores=[Stores.timers("t")])


@pytest.mark.parametrize("family", ["fixed key", "transformer"])
def test_other_processors_have_the_same_scope(family):
    class Fixed(FixedKeyProcessor):
        def process(self, record):
            self.context.store("s").get(record.value)

    class Transform(ValueTransformer):
        def transform(self, key, value):
            return self.context.store("s").get(value)

    builder = StreamsBuilder().add_state_store(Stores.key_value("s"))
    if family == "fixed key":
        builder.stream("in").process_values(Fixed, stores=["s"])
    else:
        builder.table("in").transform_values(Transform, stores=["s"], store="rows")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe(HERE, BESIDE)
        with pytest.raises(ProcessingError, match="but it belongs to shard"):
            driver.input_topic("in").pipe(HERE, ELSEWHERE)


def test_a_record_that_was_given_its_key_on_the_way_needs_a_repartition():
    keep = made(lambda self, record: self.context.store("s").put(record.key, record.value))
    for repartition in (False, True):
        builder = StreamsBuilder()
        stream = builder.stream("in").select_key(lambda key, value: value)
        (stream.repartition() if repartition else stream).process(keep, stores=[Stores.key_value("s")])
        with TopologyTestDriver(builder) as driver:
            if repartition:
                driver.input_topic("in").pipe(HERE, ELSEWHERE)
                assert driver.store("s").get(ELSEWHERE) == ELSEWHERE
            else:
                with pytest.raises(ProcessingError, match=r"put repartition\(\) before the processor"):
                    driver.input_topic("in").pipe(HERE, ELSEWHERE)


def test_a_store_of_other_bytes_than_the_topic_belongs_to_the_record_all_the_same():
    keep = made(lambda self, record: self.context.store("s").put(record.key, record.value))
    builder = StreamsBuilder()
    builder.stream("in", key=Serdes.json).process(keep, stores=[Stores.key_value("s", key=Serdes.string)])
    with TopologyTestDriver(builder) as driver:
        for number in range(20):
            driver.input_topic("in", key=Serdes.json).pipe(f"k{number}", number)
        assert len(list(driver.store("s").all())) == 20


@pytest.mark.parametrize("inner", [True, False])
def test_the_windows_of_a_key_are_where_the_key_is(inner):
    key_of = (lambda record: record.key.key) if inner else (lambda record: record.key)
    keep = made(lambda self, record: self.context.store("s").put(key_of(record), record.value))
    spec = Stores.key_value("s", key=Serdes.string if inner else Serdes.windowed(Serdes.string, 10))
    builder = StreamsBuilder()
    counts = builder.stream("in").group_by_key().windowed_by(TimeWindows(10)).count(store="counts")
    counts.to_stream().process(keep, stores=[spec])
    with TopologyTestDriver(builder) as driver:
        for number in range(20):
            driver.input_topic("in").pipe(f"k{number}", number, 0)
        assert len(list(driver.store("s").all())) == 20


def test_shared_and_scheduled_state_may_have_any_key():
    keep = made(lambda self, record: self.context.store("s").put(record.value, record.key))
    assert run(keep, [(HERE, ELSEWHERE, 0)], stores=[Stores.shared("s")]) == []
    builder = StreamsBuilder()
    builder.scheduled(10, lambda context: context.forward(HERE, ELSEWHERE)).process(
        keep, stores=[Stores.key_value("s")]
    )
    with TopologyTestDriver(builder) as driver:
        driver.advance_wall_clock(10)
        assert dict(driver.store("s").all()) == {ELSEWHERE: HERE}


@pytest.mark.parametrize("auto_commit", [True, False])
def test_a_partitioner_decides_the_shard_so_that_records_of_a_partition_meet(auto_commit):
    """The store behind it belongs to the partition: it holds whatever came there, under any key."""

    def process(self, record):
        rows = self.context.store("s")
        self.context.forward(record.with_value([self.context.shard, rows.merge("all", record.value, int.__add__)]))

    builder = StreamsBuilder()
    by_team = builder.stream("in").repartition(
        partitions=20, partitioner=lambda topic, key, value, partitions: (value + 18) % partitions
    )
    by_team.process(made(process), stores=[Stores.key_value("s")]).to("out")
    with TopologyTestDriver(builder, auto_commit=auto_commit) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("b", 2), ("c", 1), ("d", 2), ("e", 21)])
        driver.commit()
        rows = {record.key: record.value for record in driver.output_topic("out").read_all()}
    assert rows == {"a": [3, 1], "b": [0, 2], "c": [3, 2], "d": [0, 4], "e": [3, 23]}


def test_a_partitioner_that_leaves_it_open_gives_the_partition_of_the_key():
    tell = made(lambda self, record: self.context.forward(record.with_value(self.context.shard)))
    builder = StreamsBuilder()
    builder.stream("in").repartition(partitions=4, partitioner=lambda *_: None).process(tell).to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe_all([(f"k{n}", n) for n in range(30)])
        assert set(driver.output_topic("out").read_values()) == {0, 1, 2, 3}


# ---- global tables


def test_a_global_store_is_read_by_processors_and_written_by_its_topic_alone():
    def process(self, record):
        names = self.context.store("names")
        if record.value == "write":
            names.put(record.key, "x")
        self.context.forward(record.with_value(names.get(record.key)))

    builder = StreamsBuilder()
    keep = made(lambda self, record: self.context.store("names").put(record.key, record.value))
    builder.add_global_store(Stores.key_value("names"), "names", keep)
    builder.stream("in").process(made(process)).to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("names").pipe(ELSEWHERE, "Ann")
        driver.input_topic("in").pipe(ELSEWHERE, "read")
        assert driver.output_topic("out").read_values() == ["Ann"]
        with pytest.raises(
            ProcessingError, match=r"put\(\) of the global store 'names', which is written from its topic"
        ):
            driver.input_topic("in").pipe(ELSEWHERE, "write")


@pytest.mark.parametrize("auto_commit", [True, False])
def test_bad_bytes_in_the_topic_of_a_global_table_go_to_the_policy(auto_commit):
    builder = StreamsBuilder()
    names = builder.global_table("names", store="names")
    builder.stream("in").join(names, lambda value, name: name, select=lambda key, value: key).to("out")

    def pipe(**config):
        with TopologyTestDriver(builder, config=config, auto_commit=auto_commit) as driver:
            driver.input_topic("names", value=Serdes.bytes).pipe("a", b"{broken", 7)
            driver.input_topic("names").pipe("b", "Bo", 8)
            driver.commit()
            letters = driver.output_topic("dead", value=Serdes.bytes).read_all() if config else []
            return driver.metrics()["dropped_by_reason"], list(driver.store("names").all()), letters

    with pytest.raises(DeserializationError, match="names-0@0"):
        pipe()
    assert pipe(on_deserialization_error="skip") == ({"deserialization_error": 1}, [("b", "Bo")], [])
    dropped, rows, (letter,) = pipe(on_deserialization_error="dead_letter", dead_letter_topic="dead")
    assert (dropped, rows) == ({"deserialization_error": 1}, [("b", "Bo")])
    assert (letter.key, letter.value, letter.timestamp) == ("a", b"{broken", 7)
    assert dict(letter.headers)["__streams.errors.topic"] == b"names"


@pytest.mark.capability("K1033")
@pytest.mark.parametrize("auto_commit", [True, False])
def test_a_processor_of_a_global_store_that_raises_goes_to_the_policy(auto_commit):
    def keep(self, record):
        if record.value == "bad":
            raise ValueError("no bad names")
        self.context.store("names").put(record.key, record.value)

    builder = StreamsBuilder()
    builder.add_global_store(Stores.key_value("names"), "names", made(keep))

    def pipe(**config):
        with TopologyTestDriver(builder, config=config, auto_commit=auto_commit) as driver:
            driver.input_topic("names").pipe_all([("a", "bad"), ("b", "Bo")], start=7)
            if not auto_commit:
                driver.commit()
            letters = driver.output_topic("dead").read_all() if config else []
            return driver.metrics()["dropped_by_reason"], list(driver.store("names").all()), letters

    with pytest.raises(ProcessingError, match="no bad names"):
        pipe()
    assert pipe(on_processing_error="skip") == ({"processing_error": 1}, [("b", "Bo")], [])
    dropped, rows, (letter,) = pipe(on_processing_error="dead_letter", dead_letter_topic="dead")
    assert (dropped, rows) == ({"processing_error": 1}, [("b", "Bo")])
    assert (letter.key, letter.value, letter.timestamp) == ("a", "bad", 7)


# ---- late records of tables


@pytest.mark.parametrize("late", [None, LatePolicy.accept, LatePolicy.drop, LatePolicy.dead_letter])
def test_a_table_says_what_becomes_of_late_records(late):
    builder = StreamsBuilder()
    builder.table("in", watermark=WatermarkStrategy.bounded(5), late=late, store="rows").to_stream().to("out")
    with TopologyTestDriver(builder, config={"dead_letter_topic": "dead"}) as driver:
        for value, at in (("new", 20), ("in time", 15), ("late", 14)):
            driver.input_topic("in").pipe("a", value, at)
        taken = late in (None, LatePolicy.accept)
        assert driver.store("rows").get("a") == ("late" if taken else "in time")
        assert driver.output_topic("out").read_values() == ["new", "in time", *(["late"] if taken else [])]
        assert driver.metrics()["dropped_by_reason"] == ({} if taken else {"late_record": 1})
        letters = driver.output_topic("dead", value=Serdes.json).read_all()
    if late is LatePolicy.dead_letter:
        (letter,) = letters
        headers = {name.removeprefix("__streams.errors."): text for name, text in letter.headers}
        assert (letter.key, letter.value, letter.timestamp) == ("a", "late", 14)
        assert (headers["late-by-ms"], headers["watermark"]) == (b"1", b"15")
        assert "window-start" not in headers
    else:
        assert letters == []


def test_a_table_hears_of_time_by_the_records_of_other_keys():
    builder = StreamsBuilder()
    builder.table("in", late=LatePolicy.drop, store="rows")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe(ELSEWHERE, "new", 20)
        driver.input_topic("in").pipe(HERE, "late", 10)
        assert driver.store("rows").get(HERE) is None
        assert driver.metrics()["dropped_by_reason"] == {"late_record": 1}


# ---- FixedKeyProcessor


def test_the_key_of_a_fixed_key_processor_does_not_outlive_a_failed_record():
    class Fails(FixedKeyProcessor):
        def init(self, context):
            super().init(context)
            context.schedule(10, PunctuationType.WALL_CLOCK_TIME, self.punctuate)

        def process(self, record):
            if record.value == "fail":
                raise ValueError("no")

        def punctuate(self, now):
            self.context.forward(Record(HERE, "of nobody", now))

    builder = StreamsBuilder()
    builder.stream("in").process_values(Fails).to("out")
    with TopologyTestDriver(builder, config={"on_processing_error": "skip"}, auto_commit=False, shards=1) as driver:
        driver.input_topic("in").pipe(HERE, "fail")
        driver.commit()
        driver.advance_wall_clock(10)
        driver.commit()
        assert driver.output_topic("out").read_values() == []
        assert driver.metrics()["dropped_by_reason"] == {"processing_error": 2}


def test_the_key_of_a_timer_does_not_outlive_it():
    class Timed(FixedKeyProcessor):
        def init(self, context):
            super().init(context)
            context.schedule(10, PunctuationType.WALL_CLOCK_TIME, lambda now: context.forward(Record(HERE, "x", now)))

        def process(self, record):
            self.context.timers.register_event_time(record.key, record.timestamp)

        def on_timer(self, timestamp, key, context):
            context.forward(Record(key, "fired", timestamp))

    builder = StreamsBuilder()
    builder.stream("in").process_values(Timed, stores=[Stores.timers("t")]).to("out")
    with TopologyTestDriver(builder, config={"on_processing_error": "skip"}, **KAFKA) as driver:
        driver.input_topic("in").pipe(HERE, 1, 5)
        driver.advance_wall_clock(10)
        assert driver.output_topic("out").read_values() == ["fired"]


def test_a_user_config_may_come_from_the_environment_as_json():
    assert load({}, environ={"PENSTOCK_USER_CONFIG": '{"rate": 3}'})["user_config"] == {"rate": 3}
    with pytest.raises(ConfigError, match="PENSTOCK_USER_CONFIG"):
        load({}, environ={"PENSTOCK_USER_CONFIG": "{rate"})
