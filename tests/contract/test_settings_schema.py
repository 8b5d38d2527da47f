"""The settings as JSON Schema say what the settings themselves take."""

import json

import jsonschema_rs
import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.config import SETTINGS, json_schema, load
from penstock.errors import ConfigError

VALUES = (
    None, True, False, -2, -1, 0, 1, 5, 10**9, 1.5, "x", "fail", "skip", "dead_letter", "restart", "shutdown", "all", "none",
    "exactly_once", "local[2]", "both", "text", "auto", "host:8080", ["single_store_self_join"], ["x"], [], {}, {"a": 1},
)  # fmt: skip


def takes(name, value):
    try:
        load({name: value, "dead_letter_topic": "dead"} if name != "dead_letter_topic" else {name: value}, environ={})
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_the_schema_takes_what_the_setting_takes(row):
    validator = jsonschema_rs.validator_for(json_schema())
    for value in VALUES:
        valid = validator.is_valid({row.name: value})
        if valid:
            assert takes(row.name, value), value
        elif not isinstance(value, str):  # text may come from the environment: numbers, names with commas
            assert not takes(row.name, value), value
    if row.name != "application_id":
        assert validator.is_valid({row.name: json.loads(json.dumps(row.default))})
    assert json_schema()["properties"][row.name]["description"] == row.meaning


def test_an_unknown_name_is_not_taken():
    assert not jsonschema_rs.validator_for(json_schema()).is_valid({"lane": 2})


def test_the_command_prints_it():
    printed = CliRunner().invoke(app, ["config", "--schema"])
    assert json.loads(printed.stdout) == json.loads(json.dumps(json_schema()))
