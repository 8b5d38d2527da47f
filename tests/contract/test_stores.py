"""Stores inside a processor: every kind, every option, Kafka's verbs in snake_case."""

from datetime import timedelta

import pytest

from penstock import Processor, Serdes, Stores, StreamsBuilder, Windowed
from penstock.testing import TopologyTestDriver


def inside(spec, steps):
    """Run functions of the store, one a record at timestamp 0, 1, ...; return what they return. One shard has all keys."""
    results = []

    class Run(Processor):
        def init(self, context):
            self.store = context.store(spec.name)

        def process(self, record):
            results.append(steps[record.value](self.store))

    builder = StreamsBuilder()
    builder.add_state_store(spec)
    builder.stream("in").process(Run, stores=[spec.name])
    with TopologyTestDriver(builder, shards=1) as driver:
        for index in range(len(steps)):
            driver.input_topic("in").pipe("k", index, timestamp=index)
    return results


@pytest.mark.parametrize(
    "spec",
    [
        Stores.key_value("s"),
        Stores.key_value("s", persistent=False),
        Stores.key_value("s", logged=False),
        Stores.key_value("s", cached=True),
        Stores.key_value("s", cached=False, key=Serdes.string, value=Serdes.json),
        Stores.key_value("s", ttl=timedelta(days=1)),
        Stores.shared("s"),
        Stores.lru("s", max_entries=100),
    ],
    ids=["plain", "memory", "not logged", "cached", "serdes", "ttl", "shared", "lru"],
)
def test_key_value_verbs(spec):
    assert inside(
        spec,
        [
            lambda s: s.get("a"),
            lambda s: s.put("a", {"n": 1}),
            lambda s: s.get("a"),
            lambda s: s.put_if_absent("a", 5),
            lambda s: s.put_if_absent("b", 5),
            lambda s: s.put_all([("c", 6), ("d", 7)]),
            lambda s: list(s.all()),
            lambda s: list(s.range("b", "c")),
            lambda s: list(s.range(None, "b")),
            lambda s: list(s.range("c", None)),
            lambda s: list(s.reverse_range("b", "c")),
            lambda s: [key for key, _ in s.reverse_all()],
            lambda s: list(s.prefix_scan("c", Serdes.string)),
            lambda s: s.approximate_num_entries(),
            lambda s: s.delete("d"),
            lambda s: s.delete("d"),
            lambda s: s.put("c", None),
            lambda s: s.get("c"),
            lambda s: s.compute("b", lambda key, old: old + 1),
            lambda s: s.compute("new", lambda key, old: [key, old]),
            lambda s: s.compute("new", lambda key, old: None),
            lambda s: s.merge("b", 10, lambda old, new: old + new),
            lambda s: s.merge("e", 10, lambda old, new: old + new),
            lambda s: dict(s.all()),
        ],
    ) == [
        None,
        None,
        {"n": 1},
        {"n": 1},
        None,
        None,
        [("a", {"n": 1}), ("b", 5), ("c", 6), ("d", 7)],
        [("b", 5), ("c", 6)],
        [("a", {"n": 1}), ("b", 5)],
        [("c", 6), ("d", 7)],
        [("c", 6), ("b", 5)],
        ["d", "c", "b", "a"],
        [("c", 6)],
        4,
        7,
        None,
        None,
        None,
        6,
        ["new", None],
        None,
        16,
        10,
        {"a": {"n": 1}, "b": 16, "e": 10},
    ]


def test_put_all_takes_a_dict_too():
    assert inside(Stores.key_value("s"), [lambda s: s.put_all({"a": 1, "b": 2}), lambda s: dict(s.all())])[1] == {
        "a": 1,
        "b": 2,
    }


def test_what_is_not_put_is_not_stored():
    def change(s):
        s.get("a").append(2)

    assert inside(Stores.key_value("s"), [lambda s: s.put("a", [1]), change, lambda s: s.get("a")])[2] == [1]


def test_what_is_changed_after_the_put_is_not_stored():
    kept = [1]
    assert inside(Stores.key_value("s"), [lambda s: s.put("a", kept), lambda s: kept.append(2), lambda s: s.get("a")])[
        2
    ] == [1]


def test_an_iterator_shows_the_rows_as_they_were():
    def walk(s):
        seen = []
        for key, _ in s.all():
            seen.append(key)
            s.delete(key)
            s.put(f"{key}x", 1)
        return seen

    assert inside(Stores.key_value("s"), [lambda s: s.put_all([("a", 1), ("b", 1)]), walk])[1] == ["a", "b"]


def test_an_iterator_is_a_context_manager_and_can_be_closed():
    def walk(s):
        with s.all() as rows:
            return next(rows)

    assert inside(Stores.key_value("s"), [lambda s: s.put("a", 1), walk])[1] == ("a", 1)


def test_rows_expire_by_event_time():
    spec = Stores.key_value("s", ttl=2)
    steps = [
        lambda s: s.put("a", 1),
        lambda s: s.get("a"),
        lambda s: s.put("b", 1),
        lambda s: s.get("a"),
        lambda s: dict(s.all()),
    ]
    assert inside(spec, steps) == [None, 1, None, None, {"b": 1}]


def test_an_lru_store_forgets_the_row_used_longest_ago():
    spec = Stores.lru("s", max_entries=2)
    steps = [
        lambda s: s.put_all([("a", 1), ("b", 2)]),
        lambda s: s.get("a"),
        lambda s: s.put("c", 3),
        lambda s: dict(s.all()),
    ]
    assert inside(spec, steps)[3] == {"a": 1, "c": 3}


def test_window_store_verbs():
    spec = Stores.window("s", retention=timedelta(seconds=10), size=100)
    assert inside(
        spec,
        [
            lambda s: s.put("a", 1, 100),
            lambda s: s.put("a", 2, 200),
            lambda s: s.put("b", 3, 150),
            lambda s: s.fetch("a", 100),
            lambda s: s.fetch("a", 101),
            lambda s: list(s.fetch("a", 0, 1000)),
            lambda s: list(s.backward_fetch("a", 0, 1000)),
            lambda s: list(s.fetch_range("a", "b", 120, 1000)),
            lambda s: list(s.fetch_all(100, 150)),
            lambda s: [(w.key, w.start, w.end, v) for w, v in s.all()],
            lambda s: s.put("a", None, 100),
            lambda s: s.fetch("a", 100),
        ],
    ) == [
        None,
        None,
        None,
        1,
        None,
        [(100, 1), (200, 2)],
        [(200, 2), (100, 1)],
        [(Windowed("a", 200, 300), 2), (Windowed("b", 150, 250), 3)],
        [(Windowed("a", 100, 200), 1), (Windowed("b", 150, 250), 3)],
        [("a", 100, 200, 1), ("a", 200, 300, 2), ("b", 150, 250, 3)],
        None,
        None,
    ]


def test_a_window_store_may_keep_duplicates():
    spec = Stores.window("s", 1000, 10, retain_duplicates=True)
    steps = [lambda s: s.put("a", 1, 5), lambda s: s.put("a", 2, 5), lambda s: list(s.fetch("a", 0, 10))]
    assert inside(spec, steps)[2] == [(5, 1), (5, 2)]


def test_session_store_verbs():
    spec = Stores.session("s", retention=1_000)
    assert inside(
        spec,
        [
            lambda s: s.put(Windowed("a", 10, 20), 1),
            lambda s: s.put(Windowed("a", 50, 60), 2),
            lambda s: list(s.find_sessions("a", 15, 40)),
            lambda s: list(s.fetch("a")),
            lambda s: s.fetch_session("a", 10, 20),
            lambda s: s.remove(Windowed("a", 10, 20)),
            lambda s: list(s.fetch("a")),
        ],
    ) == [
        None,
        None,
        [(Windowed("a", 10, 20), 1)],
        [(Windowed("a", 10, 20), 1), (Windowed("a", 50, 60), 2)],
        1,
        None,
        [(Windowed("a", 50, 60), 2)],
    ]


def test_versioned_store_verbs():
    spec = Stores.versioned("s", history=timedelta(seconds=1))
    results = inside(
        spec,
        [
            lambda s: s.put("a", "one", 10),
            lambda s: s.put("a", "two", 20),
            lambda s: s.get("a").value,
            lambda s: s.get("a", 15).value,
            lambda s: s.get("a", as_of=5),
            lambda s: s.get("a", 15).timestamp,
            lambda s: s.delete("a", 30).value,
            lambda s: s.get("a"),
            lambda s: s.get("a", 25).value,
            lambda s: s.get("nothing"),
        ],
    )
    assert results[2:] == ["two", "one", None, 10, "two", None, "two", None]


def test_null_keys_are_refused():
    for verb in (lambda s: s.put(None, 1), lambda s: s.get(None)):
        with pytest.raises(Exception, match=r"(?i)key"):
            inside(Stores.key_value("s"), [verb])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stores.key_value(""),
        lambda: Stores.lru("s", 0),
        lambda: Stores.window("s", retention=5, size=10),
        lambda: Stores.key_value("s", ttl=0),
        lambda: Stores.versioned("s", -1),
    ],
)
def test_wrong_specs_are_refused(make):
    with pytest.raises(Exception, match=r"."):
        make()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Stores.key_value("s", persistant=True), "persistent"),
        (lambda: Stores.window("s", 10, 5, retain_duplicate=True), "retain_duplicates"),
        (lambda: Stores.lru("s", 10, chached=True), "."),
    ],
)
def test_an_unknown_option_says_the_nearest(make, says):
    with pytest.raises(Exception, match=says):
        make()


# --- through the driver


def test_the_driver_reads_windows_and_sessions_with_kafkas_verbs():
    from penstock import SessionWindows, TimeWindows

    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    grouped.windowed_by(TimeWindows(10)).count(store="w")
    grouped.windowed_by(SessionWindows(5)).count(store="s")
    for lanes in (1, 3):
        with TopologyTestDriver(builder, lanes=lanes) as driver:
            for key, t in (("a", 1), ("a", 3), ("a", 12), ("b", 12)):
                driver.input_topic("in").pipe(key, 1, timestamp=t)
            windows = driver.store("w")
            assert windows.fetch("a", 0) == 2
            assert list(windows.fetch("a", 0, 100)) == [(0, 2), (10, 1)]
            assert [(w.key, w.start, v) for w, v in windows.all()] == [("a", 0, 2), ("a", 10, 1), ("b", 10, 1)]
            sessions = driver.store("s")
            assert list(sessions.fetch("a")) == [(Windowed("a", 1, 3), 2), (Windowed("a", 12, 12), 1)]


def test_the_driver_reads_versions():
    builder = StreamsBuilder()
    builder.table("in", store=Stores.versioned("v", 1000))
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1, timestamp=10)
        driver.input_topic("in").pipe("a", 2, timestamp=20)
        assert driver.store("v").get("a").value == 2
        assert driver.store("v").get("a", 15).value == 1


def test_a_store_may_be_filled_before_the_test_as_in_kafkas_driver():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out", value=Serdes.int64)
    for lanes in (1, 4):
        with TopologyTestDriver(builder, lanes=lanes) as driver:
            driver.store("counts").put("a", 41)
            driver.input_topic("in").pipe("a", 1)
            assert driver.store("counts").get("a") == 42
            driver.store("counts").delete("a")
            assert driver.store("counts").get("a") is None
