"""Rows as JSON, of every kind of store: values with their times, windowed keys taken apart, rows of changelogs."""

import pytest

from penstock import Serdes, Stores, ValueAndTimestamp, VersionedRecord, Windowed
from penstock.admin import row_forms
from penstock.query.changes import ChangedRow
from penstock.state.keys import session_key, window_key

WINDOW = Stores.window("w", 60_000, 10, key=Serdes.string, value=Serdes.int64)
SESSION = Stores.session("s", 60_000, key=Serdes.string, value=Serdes.int64)
KEYED = Stores.key_value("k", key=Serdes.int64, value=Serdes.string)
SEVEN = Serdes.int64.serialize(7)


def test_a_value_has_the_times_that_its_store_keeps():
    assert row_forms.value_form(3) == {"value": 3}
    assert row_forms.value_form(ValueAndTimestamp(3, 50)) == {"value": 3, "timestamp": 50}
    assert row_forms.value_form(VersionedRecord(3, 50, None)) == {"value": 3, "timestamp": 50, "valid_to": None}


def test_a_windowed_key_is_taken_apart():
    row = {"key": "pear", "window": {"start": 20, "end": 30}, "value": 3}
    assert row_forms.pair_form((Windowed("pear", 20, 30), 3)) == row
    assert row_forms.window_form(WINDOW, "pear")((20, 3)) == row
    assert row_forms.version_form("pear")(VersionedRecord(3, 5, 9)) == {
        "key": "pear", "value": 3, "timestamp": 5, "valid_to": 9,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "key", "value", "found"),
    [
        (WINDOW, window_key(b"pear", 20), SEVEN, {"key": "pear", "window": {"start": 20, "end": 30}, "value": 7}),
        (SESSION, session_key(b"pear", 20, 25), SEVEN, {"key": "pear", "window": {"start": 20, "end": 25}, "value": 7}),
        (KEYED, SEVEN, b"x", {"key": 7, "value": "x"}),
        (KEYED, SEVEN, None, {"key": 7, "value": None, "deleted": True}),
    ],
)
def test_a_row_of_a_changelog_is_as_the_store_shows_it(spec, key, value, found):
    assert row_forms.change_form(spec)(ChangedRow(3, key, value, 50)) == {**found, "timestamp": 50}
