"""Files of a worker: those of its shards are closed with it, and an application of many shards needs few of them."""

import os
from contextlib import closing

import msgspec
from both_ways import Runs

from penstock.state import lmdb_store


def counted(builder):
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def records(turn: int):
    return [("in", 0, b"%d" % n, msgspec.json.encode({"n": n}), turn, None) for n in range(200)]


def test_a_worker_that_is_closed_has_no_files_open(folders):
    before = open_files()
    with closing(Runs(counted, folders(), "fail")) as runs:
        runs.epoch(records(1))
        assert open_files() > before
    assert open_files() == before


def test_many_shards_give_the_results_of_few_with_few_files(folders, monkeypatch):
    def results(shards: int, most: int) -> tuple[list, int]:
        monkeypatch.setattr("both_ways.SHARDS", shards)
        monkeypatch.setattr(lmdb_store, "MOST_OPEN", most)
        found, before, peak = [], open_files(), 0
        with closing(Runs(counted, folders(), "fail")) as runs:
            for turn in range(3):
                rows = runs.epoch(records(turn))["sinks"]
                found.append({key: value for place in rows.values() for key, value, *_ in place})
                peak = max(peak, open_files() - before)
        return found, peak

    few, _ = results(2, 128)
    many, peak = results(60, 8)
    assert many == few
    assert [set(turn.values()) for turn in many] == [{count.to_bytes(8, "big")} for count in (1, 2, 3)]
    assert peak <= 2 * 8
