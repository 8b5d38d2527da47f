"""A setting that was renamed still works by its former name, and says how it is called now."""

from __future__ import annotations

import pytest

from penstock.config import RENAMED, SETTINGS, load


@pytest.mark.parametrize("source", ["argument", "PENSTOCK_LETTER_RECORDS", "[tool.penstock]"])
def test_a_former_name_sets_the_setting_with_a_warning(source, tmp_path, caplog):
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text("[tool.penstock]\nletter_records = 7\n" if source == "[tool.penstock]" else "")
    environ = {source: "7"} if source.startswith("PENSTOCK") else {}
    given = {"letter_records": 7} if source == "argument" else {}
    found = load(given, environ=environ, pyproject=pyproject)
    assert found["inline_epoch_records"] == 7
    assert "letter_records" not in found
    assert [record.getMessage() for record in caplog.records] == [
        f"the setting letter_records (from {source}) is now called inline_epoch_records: rename it"
    ]


def test_the_present_name_says_nothing_and_wins_over_a_former_one_from_a_weaker_source(caplog):
    assert load({"inline_epoch_records": 5}, environ={})["inline_epoch_records"] == 5
    assert not caplog.records
    both = {"PENSTOCK_LETTER_RECORDS": "7", "PENSTOCK_INLINE_EPOCH_RECORDS": "9"}
    assert load({}, environ=both)["inline_epoch_records"] == 9
    assert load({"inline_epoch_records": 5}, environ=both)["inline_epoch_records"] == 5


def test_former_names_are_those_of_settings_that_exist():
    names = {setting.name for setting in SETTINGS}
    assert set(RENAMED.values()) <= names
    assert not names & RENAMED.keys()
