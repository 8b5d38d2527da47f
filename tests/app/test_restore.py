"""Every kind of store comes back from Kafka as it was: what follows is what would have followed without the break."""

import random

import pytest

from penstock import (
    JoinWindows,
    Processor,
    Record,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from penstock.engine import recovery

START = 1_600_000_020_000
TEXT = {"key": Serdes.string, "value": Serdes.string}
KEYS = ("ant", "bee", "cow", "dog", "elk", "fox")
OUTPUTS = ("tables", "windows", "sessions", "closed", "joined", "as-of", "kept", "rang")


def every_kind(name):
    """A topology with every kind of store; ``name`` gives its topics their names."""

    class Keeps(Processor):
        """Counts in a plain store, remembers the last keys in a small one."""

        def init(self, context):
            self.context = context
            self.plain, self.recent = context.store("plain"), context.store("recent")

        def process(self, record):
            seen = (self.plain.get(record.key) or 0) + 1
            self.plain.put(record.key, seen)
            before = self.recent.get(record.key)
            self.recent.put(record.key, record.value)
            self.context.forward(record.with_value(f"{seen} after {before}"))

    class Rings(Processor):
        """Rings for a key some time after its first record."""

        def process(self, record):
            self.context.timers.register_event_time(record.key, record.timestamp // 1000 * 1000 + 3000)

        def on_timer(self, timestamp, key, context):
            context.forward(Record(key, f"rings at {timestamp}", timestamp))

    def both(left, right):
        return f"{left}/{right}"

    def as_text(stream, topic):
        stream.map(lambda key, value: (str(key), str(value))).to(name(topic), **TEXT)

    builder = StreamsBuilder()
    left, right = builder.stream(name("left"), **TEXT), builder.stream(name("right"), **TEXT)
    builder.add_state_store(Stores.key_value("plain", key=Serdes.string, value=Serdes.int64))
    builder.add_state_store(Stores.lru("recent", 2, persistent=True, **TEXT))
    builder.add_state_store(Stores.timers("timers", key=Serdes.string))
    as_text(left.group_by_key().count(store="counts").to_stream(), "tables")
    windowed = left.group_by_key().windowed_by(TimeWindows(1000, grace=2000))
    counted = windowed.count(store="windows")
    as_text(counted.to_stream(), "windows")
    as_text(counted.suppress(Suppressed.until_window_closes(), name="closing").to_stream(), "closed")
    sessions = right.group_by_key().windowed_by(SessionWindows(700, grace=2000))
    as_text(sessions.count(store="sessions").to_stream(), "sessions")
    table = builder.table(name("table"), **TEXT, store=Stores.versioned("versions", 60_000, **TEXT))
    as_text(left.left_join(table, both, grace=1500, name="as-of"), "as-of")
    for kind in ("join", "left_join", "outer_join"):
        join = getattr(left, kind)
        as_text(join(right, both, window=JoinWindows(800, grace=500), store=kind, name=kind, **TEXT), "joined")
    as_text(left.process(Keeps, stores=["plain", "recent"], name="keeps"), "kept")
    as_text(right.process(Rings, stores=["timers"], name="rings"), "rang")
    return builder.build()


def script(seed, first, count):
    """Records of all three topics, a little out of order."""
    chosen = random.Random(seed)
    return [
        (
            chosen.choice(("left", "left", "right", "table")),
            (chosen.choice(KEYS), f"v{n}", START + n * 90 - chosen.choice((0, 0, 0, 400, 1300))),
        )
        for n in range(first, first + count)
    ]


def stores(view):
    """The rows of all stores that can be asked, as plain data."""
    found = {store: sorted(view(store).all(), key=repr) for store in ("counts", "windows", "plain", "recent")}
    sessions = {key: list(view("sessions").fetch(key)) for key in KEYS}
    history = {key: [tuple(version) for version in view("versions").history(key)] for key in KEYS}
    return found | {"sessions": sessions, "versions": history}


@pytest.mark.parametrize("keep", [False, True], ids=["from Kafka alone", "with the state of the first run"])
def test_all_kinds_of_stores_come_back_and_go_on(start, cluster, twin, by_key, keep, monkeypatch):
    monkeypatch.setattr(recovery, "RESTORE_ROWS", 7)
    for topic in ("left", "right", "table", *OUTPUTS):
        cluster.topic(topic)
    topology = every_kind(cluster.name)
    model = twin(topology)
    for number, count in enumerate((70, 50, 50)):
        for topic, row in script(number, number * 70, count):
            cluster.send(cluster.name(topic), row)
            model.send(cluster.name(topic), row)
        driven = start(topology).drain()
        model.driver.commit()
        for topic in OUTPUTS:
            found, wanted = cluster.rows(cluster.name(topic)), model.rows(cluster.name(topic))
            assert by_key(found) == by_key(wanted), topic
            assert found, topic
        assert stores(driven.view) == stores(model.driver.store)
        driven.close()
        if number:
            assert driven.progress[-1].done
            assert (driven.restored == 0) == keep
        if not keep:
            start.forget()


def test_a_restore_tells_how_far_it_is(start, cluster, monkeypatch):
    lines = cluster.topic("lines")
    builder = StreamsBuilder()
    builder.stream(lines, **TEXT).group_by_key().reduce(lambda old, new: new, store="last")
    builder.stream(lines, **TEXT).group_by_key().count(store="counts")
    cluster.send(lines, *((f"k{n}", "v", START + n) for n in range(40)))
    start(builder).drain().close()
    start.forget()
    monkeypatch.setattr(recovery, "RESTORE_ROWS", 5)
    again = start(builder)
    restored, left = [p.restored for p in again.progress], [p.left for p in again.progress]
    assert restored[-1] == 80
    assert len(restored) > 4
    assert restored == sorted(restored)
    assert left == sorted(left, reverse=True)
    assert [p.done for p in again.progress] == [*[False] * (len(left) - 1), True]
    assert dict(again.view("counts").all()) == {f"k{n}": 1 for n in range(40)}


def test_a_restore_that_was_cut_short_is_taken_up_where_it_was(start, cluster, monkeypatch):
    lines = cluster.topic("lines")
    builder = StreamsBuilder()
    builder.stream(lines, **TEXT).group_by_key().count(store="counts")
    cluster.send(lines, *((f"k{n}", "v", START + n) for n in range(40)))
    start(builder).drain().close()
    start.forget()
    monkeypatch.setattr(recovery, "RESTORE_ROWS", 3)
    engine, _ = start.make(builder)

    def give_up(told):
        raise InterruptedError

    engine._notify = give_up
    with pytest.raises(InterruptedError):
        engine.start()
    engine.close()
    again = start(builder)
    assert 0 < again.restored < 40
    assert dict(again.view("counts").all()) == {f"k{n}": 1 for n in range(40)}


@pytest.mark.parametrize("rows", [5, 500_000], ids=["in steps", "at once"])
def test_a_table_whose_topic_is_its_changelog_is_restored_from_it(start, cluster, by_key, monkeypatch, rows):
    prices, orders, out = cluster.topic("prices", 2), cluster.topic("orders", 2), cluster.topic("out")

    def topology():
        builder = StreamsBuilder()
        table = builder.table(prices, **TEXT, store="prices")
        builder.stream(orders, **TEXT).join(table, lambda order, price: f"{order} for {price}").to(out, **TEXT)
        return builder.build(optimize="reuse_ktable_source_topics")

    cluster.send(prices, *((f"k{n}", f"price {n}", START + n, n % 2) for n in range(20)))
    cluster.send(prices, ("k3", None, START + 30, 1), ("k4", "new", START + 31, 0), (None, "lost", START + 32))
    start(topology()).drain().close()
    start.forget()
    monkeypatch.setattr(recovery, "RESTORE_ROWS", rows)
    again = start(topology())
    assert again.restored == 22
    wanted = {f"k{n}": f"price {n}" for n in range(20)} | {"k4": "new"}
    del wanted["k3"]
    assert dict(again.view("prices").all()) == wanted
    cluster.send(orders, *((f"k{n}", "order", START + 100 + n, n % 2) for n in range(20)))
    cluster.send(prices, ("k5", "newest", START + 40, 1))
    again.drain()
    wanted["k5"] = "newest"
    assert dict(cluster.texts(out)) == {key: f"order for {price}" for key, price in wanted.items()}
    assert dict(again.view("prices").all()) == wanted
    assert [
        topic for topic in cluster.log.admin.topics() if topic.endswith("-changelog") and cluster.tag in topic
    ] == []
    again.close()
    kept = start(topology())
    assert kept.restored == 0
    assert dict(kept.view("prices").all()) == wanted


def test_a_reused_topic_goes_on_after_local_state_that_is_behind(start, cluster, tmp_path):
    import shutil

    prices = cluster.topic("prices")
    builder = StreamsBuilder()
    builder.table(prices, **TEXT, store="prices").to_stream().to(cluster.topic("out"), **TEXT)
    topology = builder.build(optimize="all")
    cluster.send(prices, *((f"k{n}", "old", START + n) for n in range(10)))
    start(topology).drain().close()
    second = start(topology)
    shutil.copytree(start.folder, tmp_path / "earlier")
    for value in ("new", "newer"):
        cluster.send(prices, ("k1", value, START + 20), ("k2", value, START + 21))
        second.drain()
    second.close()
    third = start(topology, state_dir=str(tmp_path / "earlier"))
    assert third.restored == 4
    rows = dict.fromkeys((f"k{n}" for n in range(10)), "old") | {"k1": "newer", "k2": "newer"}
    assert dict(third.view("prices").all()) == rows


def test_a_global_table_comes_back_from_its_topic(start, cluster):
    names, orders, out = cluster.topic("names", 2), cluster.topic("orders"), cluster.topic("out")
    builder = StreamsBuilder()
    table = builder.global_table(names, **TEXT, store="names")
    joined = builder.stream(orders, **TEXT).left_join(
        table, lambda order, name: f"{order} of {name}", select=lambda k, v: v
    )
    joined.to(out, **TEXT)
    cluster.send(names, *((f"n{n}", f"name {n}", START, n % 2) for n in range(10)))
    cluster.send(orders, ("a", "n1", START), ("b", "n12", START))
    first = start(builder).drain()
    assert first.view("names").get("n3") == "name 3"
    first.close()
    start.forget()
    cluster.send(names, ("n12", "name 12", START), ("n1", None, START, 1))
    cluster.send(orders, ("a", "n1", START + 1), ("b", "n12", START + 1), ("c", "n9", START + 1))
    again = start(builder).drain()
    assert dict(cluster.texts(out)[2:]) == {"a": "n1 of None", "b": "n12 of name 12", "c": "n9 of name 9"}
    assert sorted(again.view("names").all()) == sorted(
        {**{f"n{n}": f"name {n}" for n in (0, *range(2, 10))}, "n12": "name 12"}.items()
    )


@pytest.mark.parametrize("kind", ["table", "global table"])
def test_records_that_could_not_be_read_do_not_come_back_as_rows_of_a_reused_topic(start, cluster, kind):
    prices, orders = cluster.topic("prices"), cluster.topic("orders")
    serdes = {"key": Serdes.string, "value": Serdes.int64}
    builder = StreamsBuilder()
    read = builder.table if kind == "table" else builder.global_table
    read(prices, **serdes, store="prices")
    builder.stream(orders, **TEXT).to(cluster.topic("out"), **TEXT)
    topology = builder.build(optimize="all")
    first, second = (n.to_bytes(8, "big") for n in (1, 2))
    no_name = (("\udcff", b"1"),)  # the name of the header is the byte ff
    cluster.send(
        prices,
        ("a", first, START),
        ("b", first, START),
        ("c", first, START),
        ("a", b"short", START + 1),
        (b"\xff", second, START + 1),
        ("b", second, START + 1, 0, no_name),
        ("c", None, START + 1, 0, no_name),
        ("d", second, START + 1, 0, (("h", None),)),
    )
    cluster.send(orders, ("o", "1", START))
    wanted = {"a": 1, "b": 1, "c": 1, "d": 2}
    before = start(topology, on_deserialization_error="skip").drain()
    assert dict(before.view("prices").all()) == wanted
    before.close()
    start.forget()
    cluster.send(orders, ("o", "2", START))
    after = start(topology, on_deserialization_error="skip").drain()
    assert dict(after.view("prices").all()) == wanted
