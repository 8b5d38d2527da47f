"""Stores and results as tables: in a notebook, and as frames of pandas."""

import subprocess
import sys

import pandas as pd
import pytest

from penstock import (
    App,
    KeyQuery,
    MultiVersionedKeyQuery,
    QueryError,
    RangeQuery,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    WindowKeyQuery,
    WrongQuery,
)
from penstock.errors import MissingExtra
from penstock.testing import TopologyTestDriver

STORES = ("counts", "windows", "sessions")


def topology():
    builder = StreamsBuilder()
    words = builder.stream("words", value=Serdes.string)
    grouped = words.group_by_key(value=Serdes.string)
    grouped.count(store="counts")
    grouped.windowed_by(TimeWindows(1000)).count(store="windows")
    grouped.windowed_by(SessionWindows(500)).count(store="sessions")
    builder.table("rows", value=Serdes.string, store=Stores.versioned("versions", 60_000))
    return builder


@pytest.fixture
def driver():
    with TopologyTestDriver(topology()) as driver:
        words = driver.input_topic("words", value=Serdes.string)
        for number, word in enumerate(("apple", "pear", "apple")):
            words.pipe(word, "x", number * 600)
        for time in (1, 5):
            driver.input_topic("rows", value=Serdes.string).pipe("k", f"at {time}", time)
        yield driver


def moment(ms):
    return pd.Timestamp(ms, unit="ms", tz="UTC")


def rows(frame):
    return sorted(map(tuple, frame.to_numpy().tolist()), key=repr)


def test_a_store_is_a_frame_with_windows_as_times(driver):
    for view in (driver.store, driver.snapshot().store):
        assert rows(view("counts").to_pandas()) == [("apple", 2), ("pear", 1)]
        frame = view("windows").to_pandas()
        assert list(frame.columns) == ["key", "window_start", "window_end", "value"]
        assert rows(frame)[0] == ("apple", moment(0), moment(1000), 1)
        assert str(frame["window_start"].dtype).startswith("datetime64")
        assert len(view("sessions").to_pandas()) == 3
        assert len(view("counts").to_pandas(limit=1)) == 1


def test_a_result_is_a_frame_of_its_rows_and_is_closed(driver):
    found = driver.query("windows", WindowKeyQuery("apple", 0, 5000))
    frame = found.to_pandas()
    assert list(frame.columns) == ["window_start", "value", "timestamp"]
    assert rows(frame) == [(moment(1000), 1, moment(1200))]
    versions = driver.query("versions", MultiVersionedKeyQuery("k")).to_pandas()
    assert list(versions["value"]) == ["at 1", "at 5"]
    assert pd.isna(versions["valid_to"].iloc[-1])
    assert list(driver.query("counts", RangeQuery("x")).to_pandas().columns) == ["key", "value"]


def test_what_has_no_rows_says_what_to_ask_instead(driver):
    with pytest.raises(QueryError, match=r"result\.value"):
        driver.query("counts", KeyQuery("apple")).to_pandas()
    with pytest.raises(WrongQuery, match="MultiVersionedKeyQuery"):
        driver.snapshot().store("versions").to_pandas()


def test_a_notebook_shows_the_first_rows_and_they_are_still_there(driver):
    found = driver.query("counts", RangeQuery())
    assert "<td>apple</td><td>2</td>" in found._repr_html_()
    assert "<td>apple</td><td>2</td>" in found._repr_html_()
    assert found.found
    assert sorted(found) == [("apple", 2), ("pear", 1)]
    assert "<td>2</td>" in driver.query("counts", KeyQuery("apple"))._repr_html_()


def test_a_notebook_shows_twenty_rows_of_a_store_escaped(driver):
    words = driver.input_topic("words", value=Serdes.string)
    words.pipe_all([(f"<b>{number}", "x") for number in range(30)], start=2000)
    shown = driver.store("counts")._repr_html_()
    assert shown.count("<tr>") == 21
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert "There are more rows" in shown
    assert "MultiVersionedKeyQuery" in driver.store("versions")._repr_html_()


def test_verbs_of_a_store_are_completed(driver):
    assert {"get", "range", "to_pandas"} <= set(dir(driver.snapshot().store("counts")))
    assert "get" not in dir(driver.snapshot().store("windows"))


def test_an_application_is_shown_with_its_state_and_topology():
    shown = App(topology(), application_id="words & more")._repr_html_()
    assert "<strong>words &amp; more</strong>" in shown
    assert "CREATED" in shown
    assert "<svg" in shown


def test_without_pandas_the_remedy_is_named(driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"pip install 'penstock-streams\[notebook\]'"):
        driver.store("counts").to_pandas()


def test_applications_and_tests_need_no_ipython():
    code = "import sys; sys.modules['IPython'] = None; import penstock.app, penstock.testing, penstock.notebook"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
