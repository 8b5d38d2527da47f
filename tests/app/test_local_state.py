"""Kafka is the only durable truth; what is on the local disk is a head start, taken where it is the application's own."""

import shutil
from collections import Counter

import msgspec
import pytest

from penstock import Serdes, StateError, Stores, StreamsBuilder
from penstock.engine.reset_point import ResetPoint
from penstock.errors import EngineError
from penstock.lane.checkpoint import CHECKPOINT, KEY
from penstock.lane.shards import OLDEST_MS
from penstock.query.queries import KeyQuery
from penstock.state.lmdb_store import LmdbState

START = 1_600_000_020_000
WORDS = ("ant", "bee", "cow", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay")


@pytest.fixture
def counting(cluster):
    """An application that counts words behind a re-key, and what it has counted so far by a model."""
    return Counting(cluster)


class Counting:
    def __init__(self, cluster):
        self.cluster = cluster
        self.lines, self.counts = cluster.topic("lines", 2), cluster.topic("counts")
        self.model = Counter()
        self.sent = 0

    def topology(self, **options):
        builder = StreamsBuilder()
        words = builder.stream(self.lines, value=Serdes.string).group_by(lambda key, word: word, value=Serdes.string)
        table = words.count(store=Stores.key_value("counts", cached=False, **options), name="counted")
        table.to_stream().to(self.counts, value=Serdes.int64)
        return builder

    def say(self, *words):
        self.cluster.send(
            self.lines, *((f"k{n}", word, START + n, n % 2) for n, word in enumerate(words, start=self.sent))
        )
        self.sent += len(words)
        self.model.update(words)

    def check(self, driven):
        """Every count came out once, in order; the store has the last ones."""
        found = {}
        for word, count in self.cluster.numbers(self.counts):
            found.setdefault(word, []).append(count)
        assert found == {word: list(range(1, count + 1)) for word, count in self.model.items()}
        assert dict(driven.view("counts").all()) == dict(self.model)


def test_deleting_the_state_folder_between_two_runs_changes_nothing(start, counting):
    counting.say(*WORDS, *WORDS[:5])
    start(counting.topology()).drain().close()
    start.forget()
    counting.say(*WORDS)
    again = start(counting.topology()).drain()
    counting.check(again)
    assert again.restored == 10


def test_lanes_may_change_at_every_restart(start, counting):
    for lanes in (1, 2, 4, 3):
        counting.say(*WORDS[: 3 + lanes])
        driven = start(counting.topology(), lanes=lanes).drain()
        counting.check(driven)
        driven.close()


def test_kept_state_is_at_the_barrier_already_and_nothing_is_read(start, counting):
    counting.say(*WORDS)
    start(counting.topology()).drain().close()
    again = start(counting.topology())
    assert again.restored == 0
    assert again.progress[-1].done
    counting.say(*WORDS)
    counting.check(again.drain())


def test_of_state_that_is_some_epochs_behind_only_the_rest_is_read(start, counting, tmp_path):
    counting.say(*WORDS)
    start(counting.topology()).drain().close()
    second = start(counting.topology())
    shutil.copytree(start.folder, tmp_path / "earlier")
    for words in (WORDS[:3], WORDS[:4]):
        counting.say(*words)
        second.drain()
    second.close()
    third = start(counting.topology(), state_dir=str(tmp_path / "earlier"))
    assert third.restored == 7
    counting.check(third)


def test_state_that_is_behind_for_too_long_is_made_anew(start, counting, tmp_path):
    """Deletes that it has not seen may be compacted away by now."""
    counting.say(*WORDS)
    start(counting.topology()).drain().close()
    second = start(counting.topology())
    shutil.copytree(start.folder, tmp_path / "earlier")
    for words in (WORDS[:3], WORDS[:3]):
        counting.say(*words)
        second.drain()
    second.close()
    for folder in (tmp_path / "earlier").glob("*/shard-*/"):
        state = LmdbState(folder)
        raw = msgspec.msgpack.decode(state.map(CHECKPOINT).get(KEY))
        raw["at"] -= OLDEST_MS
        state.map(CHECKPOINT).write([(KEY, msgspec.msgpack.encode(raw))])
        state.close()
    third = start(counting.topology(), state_dir=str(tmp_path / "earlier"))
    assert third.restored > 6
    counting.check(third)


def test_state_from_before_the_machine_was_started_is_not_trusted(start, counting, tmp_path):
    counting.say(*WORDS)
    start(counting.topology()).drain().close()
    shutil.copytree(start.folder, tmp_path / "copy")
    marks = list((tmp_path / "copy").glob("*/shard-*/boot-id"))
    assert marks
    for mark in marks:
        mark.write_text("another boot")
    again = start(counting.topology(), state_dir=str(tmp_path / "copy"))
    assert again.restored == 10
    counting.check(again)


def test_damaged_state_is_restored_from_the_changelog(start, counting, tmp_path):
    counting.say(*WORDS)
    start(counting.topology()).drain().close()
    shutil.copytree(start.folder, tmp_path / "copy")
    for file in (tmp_path / "copy").glob("*/shard-*/data.mdb"):
        data = bytearray(file.read_bytes())
        for place in range(0, len(data), 1000):
            data[place] ^= 1
        file.write_bytes(data)
    again = start(counting.topology(), state_dir=str(tmp_path / "copy"))
    assert again.restored == 10
    counting.say(*WORDS)
    counting.check(again.drain())


def test_state_of_an_earlier_life_is_thrown_away(start, counting, tmp_path):
    counting.say(*WORDS)
    start(counting.topology()).drain().close()
    # a worker may be about to delete what it has just written into the state
    shutil.copytree(start.folder, tmp_path / "old", ignore=shutil.ignore_patterns("pending-*"))
    app = start.app(counting.topology())
    gone = app.reset()
    assert gone["folders"] == [str(start.folder / start.application_id)]
    assert start.application_id in gone["groups"]
    assert len(gone["topics"]) == 2
    start.folder.mkdir(exist_ok=True)
    shutil.copytree(tmp_path / "old", start.folder, dirs_exist_ok=True)
    counting.cluster.log.admin.delete_topics([counting.counts])
    counting.counts = counting.cluster.topic("counts-again")
    again = start(counting.topology())
    assert again.restored == 0
    assert list(again.view("counts").all()) == []
    counting.check(again.drain())


def test_a_store_without_a_changelog_lives_on_the_disk_and_begins_anew_without_it(start, counting):
    counting.say(*WORDS)
    start(counting.topology(logged=False)).drain().close()
    counting.say(*WORDS)
    again = start(counting.topology(logged=False)).drain()
    assert dict(again.view("counts").all()) == dict.fromkeys(WORDS, 2)
    again.close()
    start.forget()
    counting.say(*WORDS)
    anew = start(counting.topology(logged=False)).drain()
    assert dict(anew.view("counts").all()) == dict.fromkeys(WORDS, 1)


def test_an_aborted_epoch_leaves_nothing_in_state_or_changelog(start, counting):
    """The changelog of the epoch after an aborted one is read to its very end."""
    driven = start(counting.topology())
    failures = iter(["produce changelog", "produce epoch record", "send offsets", None])
    failing = next(failures)

    def fail_once(step, epoch):
        nonlocal failing
        if step == failing:
            failing = next(failures)
            raise EngineError("planted")

    driven.loop.observers.append(fail_once)
    for words in (WORDS, WORDS[:5], WORDS[:2]):
        counting.say(*words)
        driven.drain()
    assert driven.loop.totals.retries == 3
    counting.check(driven)
    driven.close()
    start.forget()
    again = start(counting.topology())
    counting.check(again)
    assert again.restored == 17


def test_offsets_that_the_group_has_lost_are_those_of_the_last_barrier(start, counting):
    """A cluster forgets the offsets of a group after a while without commits."""
    counting.say(*WORDS)
    start(counting.topology()).drain().close()
    counting.cluster.log.admin.delete_group(start.application_id)
    counting.say(*WORDS[:3])
    counting.check(start(counting.topology()).drain())


def test_a_reset_says_where_to_begin_and_local_state_may_be_deleted_alone(start, cluster, counting):
    counting.say("ant", "bee", "ant", "cow")
    app = start.app(counting.topology())
    app.start().wait_until_running(120_000)
    with pytest.raises(StateError, match="close it first"):
        app.clean_up()
    app.query("counts", KeyQuery("cow"), at_least={(counting.lines, 1): 1}, wait_ms=60_000)
    app.close()
    assert app.clean_up()
    assert not app.clean_up()
    again = start(counting.topology())  # from the changelogs
    assert again.restored
    assert dict(again.view("counts").all()) == {"ant": 2, "bee": 1, "cow": 1}
    again.close()
    told = app.reset(to=ResetPoint.offset(1))
    assert told["offsets"] == [f"{counting.lines}-{partition}: 1" for partition in (0, 1)]
    assert start.application_id not in told["topics"]
    anew = start(counting.topology()).drain()
    assert dict(anew.view("counts").all()) == {"ant": 1, "cow": 1}
    assert cluster.log.admin.committed(start.application_id) == {(counting.lines, 0): 2, (counting.lines, 1): 2}
