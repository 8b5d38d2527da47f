"""What a program leaves open, the settings say: serdes, the time of records, where stores keep their rows."""

import re
from dataclasses import is_dataclass

import pytest

from penstock import (
    App,
    ConfigError,
    JoinWindows,
    Processor,
    Serde,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimestampExtractor,
    TimeWindows,
    Topology,
    Windowed,
)
from penstock.serde.defaults import DefaultSerde
from penstock.setting_checks import EXTRACTORS, SERDES
from penstock.testing import TopologyTestDriver

NUMBERS = {"key": Serdes.int64, "value": Serdes.int32}
SETTINGS = {"default_key_serde": "int64", "default_value_serde": "int32"}
TENTHS = Serde(lambda value: b"%.1f" % value, float)


class Adds(Processor):
    """Adds to a store, and forwards what it has come to."""

    def init(self, context):
        self.context = context
        self.store = context.store("added")

    def process(self, record):
        self.context.forward(record.with_value(self.store.merge(record.key, record.value, lambda old, new: old + new)))


def program(**said):
    """Every operator that writes keys or values somewhere; ``said``: the serdes, or nothing."""
    builder = StreamsBuilder()
    ones = builder.stream("ones", **said)
    twos = builder.stream("twos", **said)
    rows = builder.table("rows", store="rows", **said)
    other_rows = builder.table("other-rows", store="other-rows", **said)
    everywhere = builder.global_table("everywhere", store="everywhere", **said)
    changed = ones.select_key(lambda key, value: key % 3).map_values(lambda value: value + 1)
    grouped = changed.group_by_key(name="grouped", **said)
    grouped.reduce(lambda a, b: a + b, store="reduced", **said).to_stream().to("sums", **said)
    grouped.aggregate(int, lambda key, value, sum_: sum_ + value, store="aggregated", **said).to_stream().to(
        "totals", **said
    )
    window = grouped.windowed_by(TimeWindows(10)).reduce(max, store="windows", **said)
    window.suppress(Suppressed.until_window_closes(), name="held").to_stream(key=lambda w, value: w.key).to(
        "tops", **said
    )
    sessions = grouped.windowed_by(SessionWindows(5, grace=1_000)).count(store="sessions")
    key = {"key": Serdes.session_windowed(said["key"])} if said else {}
    sessions.to_stream().to("sessions", **key)
    other = {"other_value": said["value"]} if said else {}
    joined = ones.outer_join(
        twos, lambda a, b: (a or 0) * 100 + (b or 0), window=JoinWindows(5), store="joined", name="j", **said, **other
    )
    joined.to("joins", **said)
    ones.left_join(rows, lambda a, b: a + (b or 0), name="looked-up", **said).to("looked-up", **said)
    found = changed.join(everywhere, lambda a, b: a * b, select=lambda key, value: key, name="found")
    found.repartition(name="again", **said).to_table(store="kept", **said).to_stream().to("found", **said)
    by_key = rows.join(
        other_rows, lambda a, b: a - b, foreign_key=lambda value: value % 2, store="by-key", name="fk", **said
    )
    by_key.to_stream().to("by-key", **said)
    by_value = rows.map_values(lambda value: value * 2, store="doubled", **said).group_by(
        lambda key, value: (value % 4, value), name="by-value", **said
    )
    by_value.reduce(lambda a, b: a + b, lambda a, b: a - b, store="by-value", **said).to_stream().to("by-value", **said)
    twos.deduplicate(by=lambda key, value: value, within=3, store="seen", name="once").to("once", **said)
    builder.add_state_store(Stores.key_value("added", **said))
    twos.process(Adds, stores=["added"], name="adds").to("added", **said)
    return builder


def records():
    """Records of all its topics, in the order of time."""
    for at in range(60):
        key = at * 7 % 5
        yield ("rows", "other-rows", "everywhere", "ones", "twos", "ones", "twos")[at % 7], key, at * 11 % 13, at


def written(builder, *, said, config, auto_commit):
    with TopologyTestDriver(builder, config=config, auto_commit=auto_commit, lanes=2, shards=4) as driver:
        for number, (topic, key, value, at) in enumerate(records()):
            driver.input_topic(topic, **said).pipe(key, value, at)
            if number % 20 == 19:
                driver.commit()
        driver.commit()
        stores = {
            name: sorted(map(repr, driver.store_contents(name))) for name in ("rows", "reduced", "by-key", "added")
        }
        return driver.all_output(), stores


@pytest.mark.capability("CF9")
@pytest.mark.parametrize("auto_commit", [True, False], ids=["record by record", "epochs"])
def test_what_is_not_said_is_written_as_if_it_were(auto_commit):
    said, _ = written(program(**NUMBERS), said=NUMBERS, config={}, auto_commit=auto_commit)
    left_open, stores = written(program(), said={}, config=SETTINGS, auto_commit=auto_commit)
    assert left_open == said
    assert len(said) > 20
    assert all(len(stores[name]) > 1 for name in stores)
    assert {len(key) for topic in ("sums", "joins", "by-key", "added") for key, *_ in said[topic]} == {8}


def test_nothing_is_left_open_in_the_topology_of_an_application():
    def serdes(value):
        if isinstance(value, Serde):
            yield value
            for inner in value.__reduce__()[1]:
                yield from serdes(inner)
        elif isinstance(value, tuple):
            for each in value:
                yield from serdes(each)
        elif is_dataclass(value) and not isinstance(value, type):
            for name in value.__dataclass_fields__:
                yield from serdes(getattr(value, name))

    def found(topology):
        nodes = [*map(topology.node, topology.order), *topology.stores.values()]
        return [serde for node in nodes for serde in serdes(node)]

    assert any(isinstance(serde, DefaultSerde) for serde in found(program().build()))
    topology = App(program(), application_id="a", **SETTINGS).topology
    assert len(found(topology)) > 40
    assert not [serde for serde in found(topology) if isinstance(serde, DefaultSerde)]
    assert Serdes.string not in found(topology)


def test_what_is_given_comes_first_then_what_is_inherited_then_the_setting():
    builder = StreamsBuilder()
    stream = builder.stream("in", key=Serdes.int32)
    stream.to("inherited")
    stream.to("given", key=Serdes.string)
    stream.select_key(lambda key, value: key).to("set")
    stream.map_values(lambda value: value).to("value-set")
    topology = App(builder, application_id="a", **SETTINGS).topology
    sinks = {
        node.topic: (node.key, node.value) for node in map(topology.node, topology.order) if hasattr(node, "extractor")
    }
    assert sinks == {
        "inherited": (Serdes.int32, Serdes.int32),
        "given": (Serdes.string, Serdes.int32),
        "set": (Serdes.int64, Serdes.int32),
        "value-set": (Serdes.int32, Serdes.int32),
    }
    unset = App(builder, application_id="a").topology
    assert [unset.node(name).value for name in unset.order if hasattr(unset.node(name), "value")] == [Serdes.json] * 5


def low_level():
    topology = Topology()
    topology.add_source("in", "in").add_processor("adds", Adds, "in").add_sink("out", "out", "adds")
    return topology.add_state_store(Stores.key_value("added"), "adds")


def test_sources_sinks_and_stores_of_a_topology_have_them_too():
    with TopologyTestDriver(low_level(), config=SETTINGS) as driver:
        driver.input_topic("in").pipe_all([(1, 5), (2, 7), (1, 5)])
        assert driver.output_topic("out").read_table() == {1: 10, 2: 7}
        assert driver.all_output()["out"][0][:2] == (bytes(7) + b"\1", bytes(3) + b"\5")
        assert driver.store("added").get(1) == 10
        assert driver.all_output()["test-app-added-changelog"][0][0] == bytes(7) + b"\1"


def test_the_key_of_a_window_is_written_with_it():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().windowed_by(TimeWindows(10)).count().to_stream().to("out")
    with TopologyTestDriver(builder, config=SETTINGS) as driver:
        driver.input_topic("in").pipe(3, 1, 12)
        assert driver.output_topic("out").read().key == Windowed(3, 10, 20)


def test_a_topology_that_is_built_already_is_resolved_by_who_runs_it():
    built = program().build()
    left_open, _ = written(built, said={}, config=SETTINGS, auto_commit=True)
    assert left_open == written(program(**NUMBERS), said=NUMBERS, config={}, auto_commit=True)[0]
    strings = {topic: rows for topic, rows in written_strings(built).items() if topic == "once"}
    assert strings["once"][0][0] == b"0"


def written_strings(built):
    """Run the same topology again, with the serdes that hold without settings."""
    with TopologyTestDriver(built) as driver:
        driver.input_topic("twos").pipe("0", 5, 0)
        return driver.all_output()


def key_of_source(app):
    return app.topology.node("KSTREAM-SOURCE-0000000000").key


def reading(**options):
    builder = StreamsBuilder()
    builder.stream("in", **options).to("out")
    return builder


def test_a_serde_is_given_as_an_object_by_its_name_or_by_its_place(tmp_path, monkeypatch):
    (tmp_path / "shop_serdes.py").write_text(
        "from penstock import Serde\nclass Keys:\n    tenths = Serde(lambda v: b'%.1f' % v, float)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert key_of_source(App(reading(), application_id="a", default_key_serde=TENTHS)) is TENTHS
    assert key_of_source(App(reading(), application_id="a", default_key_serde="Serdes.uuid")) is Serdes.uuid
    placed = key_of_source(App(reading(), application_id="a", default_key_serde="shop_serdes:Keys.tenths"))
    assert placed.serialize(1.5) == b"1.5"
    (tmp_path / "pyproject.toml").write_text('[tool.penstock]\ndefault_key_serde = "float64"\n')
    assert key_of_source(App(reading(), application_id="a")) is Serdes.float64
    monkeypatch.setenv("PENSTOCK_DEFAULT_KEY_SERDE", "int32")
    assert key_of_source(App(reading(), application_id="a")) is Serdes.int32
    assert key_of_source(App(reading(), application_id="a", default_key_serde="bytes")) is Serdes.bytes


def test_the_names_are_those_of_the_serdes_and_the_extractors():
    plain = {name for name, member in vars(Serdes).items() if isinstance(member, Serde)}
    assert set(SERDES) == plain
    assert set(EXTRACTORS) == {name for name in vars(TimestampExtractor) if not name.startswith("_")}


def test_a_default_serde_may_have_a_registry():
    with TopologyTestDriver(
        reading(),
        config={"default_value_serde": Serdes.avro("long", registry=True), "registry": "mock://default-settings"},
    ) as driver:
        driver.input_topic("in").pipe("a", 7)
        assert driver.output_topic("out").read_values() == [7]
        assert driver.all_output()["out"][0][1][:1] == b"\0"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"default_key_serde": "int46"}, "default_key_serde='int46'.*did you mean 'int64'"),
        ({"default_key_serde": None}, "default_key_serde=None.*must be a serde, or the name of one: string"),
        ({"default_value_serde": Serde}, "default_value_serde.*must be a serde"),
        (
            {"default_value_serde": "nowhere.at_all:x"},
            "default_value_serde='nowhere.at_all:x': there is no module 'nowhere'",
        ),
        ({"default_value_serde": "json:nothing"}, "default_value_serde='json:nothing'.*no attribute 'nothing'"),
        ({"default_value_serde": "json:dumps"}, "default_value_serde='json:dumps' is .*, which is no serde"),
        ({"default_timestamp_extractor": "wallclock"}, "did you mean 'wall_clock'"),
        ({"default_timestamp_extractor": 5}, "must be a function of"),
        ({"default_timestamp_extractor": lambda: 1}, r"\(record, partition_time\)"),
        ({"default_timestamp_extractor": "json:nothing"}, "no attribute 'nothing'"),
        ({"default_store": "memory"}, "must be one of persistent, in_memory"),
    ],
)
def test_what_is_no_default_is_refused(given, says):
    for make in (
        lambda: App(reading(), application_id="a", **given),
        lambda: TopologyTestDriver(reading(), config=given),
    ):
        with pytest.raises(ConfigError, match=says):
            make()


# ---- the time of records


def half(record):
    return record.timestamp // 2


@pytest.mark.capability("CF10")
@pytest.mark.parametrize("auto_commit", [True, False], ids=["record by record", "epochs"])
def test_sources_that_say_no_timestamp_take_the_default_one(auto_commit):
    builder = StreamsBuilder()
    builder.stream("in").select_key(lambda key, value: value).repartition(name="again").to("halved")
    builder.stream("own", timestamp=TimestampExtractor.fail_on_invalid).to("as-it-was")
    builder.table("rows", store="rows").to_stream().to("rows-out")
    builder.scheduled(1_000, lambda context: context.forward("beat", 1)).to("beats")
    config = {"default_timestamp_extractor": half}
    with TopologyTestDriver(builder, config=config, auto_commit=auto_commit) as driver:
        for topic in ("in", "own", "rows"):
            driver.input_topic(topic).pipe_all([("a", "x"), ("b", "y")], start=100, step=10)
        driver.advance_wall_clock(1_000)
        driver.commit()
        times = {topic: [row[2] for row in rows] for topic, rows in driver.all_output().items()}
    assert times["halved"] == times["rows-out"] == times["test-app-rows-changelog"] == [50, 55]
    assert times["as-it-was"] == [100, 110]
    assert times["beats"] == [1_000]


def test_an_extractor_is_named_too():
    with TopologyTestDriver(reading(), config={"default_timestamp_extractor": "wall_clock"}, start=77) as driver:
        driver.input_topic("in").pipe("a", 1, 5)
        assert driver.output_topic("out").read().timestamp == 77
    usual = App(reading(), application_id="a", default_timestamp_extractor="fail_on_invalid").topology
    assert usual.node("KSTREAM-SOURCE-0000000000").timestamp is None


def test_a_topic_that_is_a_changelog_too_has_the_times_of_its_records():
    def tables(**options):
        builder = StreamsBuilder()
        builder.table("rows", store="rows", **options).to_stream().to("out")
        return builder

    given = {"optimize": "all", "default_timestamp_extractor": half}
    with pytest.raises(ConfigError, match=r"(?s)KSTREAM-SOURCE.*also the changelog of store 'rows'.*timestamp="):
        App(tables(), application_id="a", **given)
    app = App(tables(timestamp=TimestampExtractor.fail_on_invalid), application_id="a", **given)
    assert app.topology.changelog_topic("rows") == "rows-changelog"


# ---- where stores keep their rows


def kept(builder, **config):
    stores = App(builder, application_id="a", **config).topology.stores
    return {name: spec.persistent for name, spec in stores.items()}


@pytest.mark.capability("ST9", "CF19")
def test_stores_that_do_not_say_where_they_are_are_where_the_setting_says():
    held = {"held-store": False}  # what waits in a buffer is in memory, in Kafka too
    in_memory = kept(program(), default_store="in_memory")
    assert kept(program()) == dict.fromkeys(in_memory, True) | held
    assert in_memory == dict.fromkeys(in_memory, False) | {"everywhere": True}
    assert len(in_memory) > 12


def test_a_store_that_says_where_it_is_is_there():
    kinds: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(("key_value", "shared", "timers"), ()),
        "window": (10, 5),
        "session": (10,),
        "versioned": (10,),
        "lru": (3,),
    }
    for said, expected in ((True, True), (False, False), (None, None)):
        builder = StreamsBuilder()
        options = {} if said is None else {"persistent": said}
        for kind, more in kinds.items():
            builder.add_state_store(getattr(Stores, kind)(kind, *more, **options))
        for default in ("persistent", "in_memory"):
            found = kept(builder, default_store=default)
            usual = dict.fromkeys(kinds, default == "persistent") | {"lru": False}
            assert found == (usual if expected is None else dict.fromkeys(kinds, expected))


def test_stores_of_a_join_are_where_the_given_one_is():
    def join(store):
        builder = StreamsBuilder()
        one, two = builder.stream("one"), builder.stream("two")
        one.outer_join(two, lambda a, b: a, window=JoinWindows(5), store=store)
        return kept(builder, default_store="in_memory")

    assert set(join("j").values()) == {False}
    assert set(join(Stores.window("j", 10, 10)).values()) == {False}
    assert len(join("j")) == 3
    assert set(join(Stores.window("j", 10, 10, persistent=True)).values()) == {True}


def test_results_do_not_depend_on_it():
    on_disk = written(program(), said={}, config=SETTINGS, auto_commit=False)
    in_memory = written(program(), said={}, config={**SETTINGS, "default_store": "in_memory"}, auto_commit=False)
    assert in_memory == on_disk


# ---- how the topology is taken over


def test_the_text_of_a_topology_is_that_of_the_builder():
    builder = StreamsBuilder()
    builder.stream("a").to("b")
    builder.global_table("g", store="g")
    builder.stream("c").join(builder.global_table("h"), lambda a, b: a, select=lambda key, value: key).to("d")
    built = builder.build()
    for default in (Serdes.int64, Serdes.avro("long", registry="mock://text")):
        app = App(built, application_id="a", default_value_serde=default)
        assert app.topology.describe() == built.describe()
        assert app.topology.order == built.order


def test_a_topology_may_grow_after_it_was_taken():
    topology = Topology().add_source("in", "in").add_sink("out", "out", "in")
    app = App(topology, application_id="a")
    topology.add_sink("more", "more", "in")
    assert (app.topology.children("in"), topology.children("in")) == (("out",), ("out", "more"))


def test_an_application_is_configured_anew_before_its_start():
    app = App(reading(), application_id="a", shards=3)
    app.configure(default_key_serde="int64", lanes=2)
    assert key_of_source(app) is Serdes.int64
    assert (app.config["shards"], app.config["lanes"]) == (3, 2)
    with pytest.raises(ConfigError, match=re.escape("did you mean 'lanes'")):
        app.configure(lane=2)
    app.close()
    with pytest.raises(Exception, match=r"app\.change"):
        app.configure(lanes=1)
