"""At least once; time that passes without input; where rows go when a function chooses."""

import pytest

from penstock import ProcessingError, Processor, PunctuationType, Record, Serdes, Stores, StreamsBuilder, TopicError
from penstock.state.shards import shard_of

START = 1_600_000_020_000
TEXT = {"key": Serdes.string, "value": Serdes.string}


def test_at_least_once_everything_arrives_and_no_marker_is_written(start, cluster):
    lines, out = cluster.topic("lines", 2), cluster.topic("out")
    builder = StreamsBuilder()
    counted = builder.stream(lines, **TEXT).group_by(lambda k, v: v, value=Serdes.string).count(store="counts")
    counted.to_stream().to(out, value=Serdes.int64)
    settings = {"processing_guarantee": "at_least_once"}
    driven = start(builder, **settings)
    for n in range(3):
        cluster.send(lines, *(("k", word, START + n, n % 2) for word in "abc"))
        driven.drain()
    rows = cluster.read(out)
    assert sorted((r.key.decode(), int.from_bytes(r.value, "big")) for r in rows) == [
        (w, n) for w in "abc" for n in (1, 2, 3)
    ]
    assert [r.offset for r in rows] == list(range(9))
    assert cluster.log.admin.end_offsets([(out, 0)]) == {(out, 0): 9}
    assert cluster.log.admin.committed(start.application_id) == {(lines, 0): 6, (lines, 1): 3}
    driven.close()
    start.forget()
    cluster.send(lines, ("k", "a", START))
    again = start(builder, **settings).drain()
    assert again.restored == 9
    assert dict(again.view("counts").all()) == {"a": 4, "b": 3, "c": 3}
    again.close()
    cluster.send(lines, ("k", "a", START))
    exactly = start(builder).drain()
    assert dict(exactly.view("counts").all()) == {"a": 5, "b": 3, "c": 3}


def ticking(lines, out, every=1, **options):
    class Ticks(Processor):
        def init(self, context):
            self.context = context
            self.store = context.store("ticks")
            shards = context.config["shards"]  # a key of its own shard
            self.key = next(key for n in range(999) if shard_of((key := f"n{n}").encode(), shards) == context.shard)
            context.schedule(every, PunctuationType.WALL_CLOCK_TIME, self.tick)

        def tick(self, now):
            number = (self.store.get(self.key) or 0) + 1
            self.store.put(self.key, number)
            self.context.forward(Record(str(self.context.shard), str(number), now))

        def process(self, record):
            self.context.commit()

    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("ticks", key=Serdes.string, value=Serdes.int64))
    builder.stream(lines, **TEXT).process(Ticks, stores=["ticks"], name="ticks").to(out, **TEXT)
    return builder


def test_wall_clock_punctuators_tick_without_input_in_every_shard(start, cluster):
    lines, out = cluster.topic("lines"), cluster.topic("out")
    driven = start(ticking(lines, out), shards=2)
    while driven.loop.committed.epoch < 3:
        driven.loop.step()
    driven.close()
    first = cluster.texts(out)
    assert {key for key, _ in first} == {"0", "1"}
    start.forget()
    again = start(ticking(lines, out), shards=2)
    while again.loop.committed.epoch < 5:
        again.loop.step()
    for shard in "01":
        numbers = [int(value) for key, value in cluster.texts(out) if key == shard]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) > len([1 for key, _ in first if key == shard])


def test_a_punctuator_that_is_not_due_runs_no_epoch(start, cluster):
    lines, out = cluster.topic("lines"), cluster.topic("out")
    driven = start(ticking(lines, out, every=3_600_000)).drain()
    assert driven.loop.committed.epoch == 1  # the first one schedules it
    assert not driven.loop.step()
    cluster.send(lines, ("a", "1", START))
    driven.drain()
    assert driven.loop.committed.epoch == 2
    assert cluster.read(out) == []


def test_a_timer_of_processing_time_rings_without_input_also_after_a_restart(start, cluster):
    lines, out = cluster.topic("lines"), cluster.topic("out")

    class Rings(Processor):
        def process(self, record):
            at = self.context.system_time + int(record.value)
            self.context.timers.register_processing_time(record.key, at)

        def on_timer(self, timestamp, key, context):
            context.forward(Record(key, "rings", timestamp))

    builder = StreamsBuilder()
    builder.add_state_store(Stores.timers("timers", key=Serdes.string))
    builder.stream(lines, **TEXT).process(Rings, stores=["timers"], name="rings").to(out, **TEXT)
    driven = start(builder)
    cluster.send(lines, ("soon", "200", START), ("later", "2500", START), ("never", "3600000", START))
    driven.loop.step()
    while not cluster.read(out):
        driven.loop.step()
    assert cluster.texts(out) == [("soon", "rings")]
    driven.close()
    start.forget()
    again = start(builder)
    while len(cluster.read(out)) < 2:
        again.loop.step()
    assert cluster.texts(out) == [("soon", "rings"), ("later", "rings")]
    assert not again.loop.step()


def test_records_that_come_after_a_barrier_wait_for_the_commit_interval(start, cluster, monkeypatch):
    lines, out = cluster.topic("lines"), cluster.topic("out")
    builder = StreamsBuilder()
    builder.stream(lines, **TEXT).to(out, **TEXT)
    driven = start(builder, commit_interval_ms=3_600_000)
    cluster.send(lines, ("a", "1", START))
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if cluster.texts(out):  # the first barrier is there
            cluster.send(lines, ("a", "2", START))
            driven.loop.stopping = True

    monkeypatch.setattr(driven.loop, "_pause", pause)
    driven.loop.run()
    assert 3_000 < waited[-1] <= 3_600
    assert cluster.texts(out) == [("a", "1")]


def test_a_request_to_commit_is_heard(start, cluster):
    from penstock.engine.commit import run_lanes

    lines, out = cluster.topic("lines"), cluster.topic("out")
    driven = start(ticking(lines, out, every=3_600_000)).drain()
    cluster.send(lines, ("a", "1", START))
    work = driven.loop.attempts.prepare(driven.loop._input.choose())
    run_lanes(work)
    assert any(report.commit_requested for report in work.reports)


def test_a_partitioner_chooses_among_the_partitions_there_are(start, cluster, twin):
    lines, out = cluster.topic("lines"), cluster.topic("out", 3)

    def by_value(topic, key, value, partitions):
        assert partitions == 3
        return [int(part) for part in value.split(",")] if value else None

    builder = StreamsBuilder()
    builder.stream(lines, **TEXT).to(out, **TEXT, partitioner=by_value)
    cluster.send(lines, ("a", "2", START), ("b", "0,1,2", START), ("c", "1", START))
    start(builder).drain()
    assert [(r.partition, r.key) for r in cluster.read(out)] == [
        (0, b"b"), (1, b"b"), (1, b"c"), (2, b"a"), (2, b"b"),
    ]  # fmt: skip


def test_a_partition_that_does_not_exist_is_refused(start, cluster):
    lines, out = cluster.topic("lines"), cluster.topic("out", 3)
    builder = StreamsBuilder()
    builder.stream(lines, **TEXT).to(out, **TEXT, partitioner=lambda topic, key, value, partitions: 3)
    cluster.send(lines, ("a", "1", START))
    with pytest.raises(ProcessingError, match=f"chose partition 3 of {out}, which has 3"):
        start(builder).drain()


def test_a_key_goes_where_javas_producer_sends_it(start, cluster):
    from penstock.log.partitioner import partition_for

    lines, out, tables = cluster.topic("lines"), cluster.topic("out", 5), cluster.topic("tables", 5)
    builder = StreamsBuilder()
    stream = builder.stream(lines, **TEXT)
    stream.to(out, **TEXT)
    stream.group_by_key().count(store="counts").to_stream().to(tables, value=Serdes.int64)
    cluster.send(lines, *((f"key-{n}", "v", START + n) for n in range(40)))
    start(builder).drain()
    for topic in (out, tables):
        rows = cluster.read(topic)
        assert len(rows) == 40
        assert [r.partition for r in rows] == [partition_for(r.key, 5) for r in rows]


def test_topics_may_be_known_only_by_the_record_with_partitions_of_their_own(start, cluster):
    lines, few, many = cluster.topic("lines"), cluster.topic("few", 2), cluster.topic("many", 7)
    names = {"few": few, "many": many}

    def chosen(key, value, context):
        assert context.topic == lines
        return names[value]

    builder = StreamsBuilder()
    last = lambda topic, key, value, partitions: partitions - 1  # noqa: E731
    builder.stream(lines, **TEXT).to(chosen, **TEXT, partitioner=last)
    cluster.send(lines, ("a", "few", START), ("b", "many", START), ("c", "few", START))
    driven = start(builder).drain()
    assert [(r.partition, r.key) for r in cluster.read(few)] == [(1, b"a"), (1, b"c")]
    assert [(r.partition, r.key) for r in cluster.read(many)] == [(6, b"b")]
    assert driven.loop.totals.records_out == {few: 2, many: 1}


@pytest.mark.parametrize("partitioner", [None, lambda topic, key, value, partitions: 0], ids=["by key", "chosen"])
def test_a_chosen_topic_that_does_not_exist_is_an_error_that_names_it(start, cluster, partitioner):
    lines, missing = cluster.topic("lines"), cluster.name("missing")
    builder = StreamsBuilder()
    builder.stream(lines, **TEXT).to(lambda key, value: missing, **TEXT, partitioner=partitioner)
    cluster.send(lines, ("a", "1", START))
    driven = start(builder, kafka={"producer.topic.metadata.propagation.max.ms": 500})
    with pytest.raises((TopicError, ProcessingError), match=missing):
        driven.drain()
    assert driven.loop.totals.retries == 0
    assert cluster.log.admin.committed(start.application_id) == {}
