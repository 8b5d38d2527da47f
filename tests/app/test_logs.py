"""Log lines of a running application: those of the workers reach the driver, with what they are about; levels go the other way."""

import json
import logging
import threading
from contextlib import contextmanager

import pytest

from penstock import Serdes, StreamsBuilder
from penstock.errors import ProcessingError

START = 1_600_000_020_000
SHOP = "tests.shop"


@contextmanager
def alone():
    """A program that has not set up logging: pytest has."""
    root, shop = logging.getLogger(), logging.getLogger(SHOP)
    handlers, root.handlers = root.handlers, []
    try:
        yield shop
    finally:
        root.handlers = handlers
        shop.setLevel(logging.NOTSET)


def program(lines):
    def parse(value):
        logging.getLogger(SHOP).info("parsed %s", value)
        if value == "bad":
            raise ValueError("no price")
        if value == "odd":
            logging.getLogger(SHOP).warning("an odd value: %s", value)
        return value

    builder = StreamsBuilder()
    stream = builder.stream(lines, key=Serdes.string, value=Serdes.string)
    stream.map_values(parse, name="parse").group_by_key().count(store="counts")
    return builder


def until(holds):
    for _ in range(600):
        if holds():
            return
        threading.Event().wait(0.1)
    raise AssertionError("it never comes to hold")


def lines_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_lines_of_workers_and_of_records_that_failed_are_json_with_fields(cluster, start, capsys):
    lines, errors = cluster.topic("lines"), cluster.topic("errors")
    settings = {"on_processing_error": "dead_letter", "dead_letter_topic": errors, "log_format": "json"}
    app = start.app(program(lines), **settings)
    cluster.send(lines, ("a", "odd", START), ("b", "bad", START), *(("c", "bad", START) for _ in range(20)))
    with alone() as shop:
        app.start().wait_until_running(120_000)
        until(lambda: app.metrics()["records_in"] == 22)
        shop.setLevel(logging.INFO)  # in the driver: it holds in the workers from the next epoch on
        cluster.send(lines, ("a", "fine", START))
        until(lambda: app.metrics()["records_in"] == 23)
        assert app.close()
    found = lines_of(capsys.readouterr().err)
    odd = next(line for line in found if line["message"] == "an odd value: odd")
    about = {
        "application": app.application_id,
        "epoch": 1,
        "node": "parse",
        "topic": lines,
        "partition": 0,
        "offset": 0,
    }
    assert about.items() <= odd.items()
    assert odd["logger"] == SHOP
    assert odd["level"] == "WARNING"
    assert odd["lane"] in range(64)
    assert odd["shard"] in range(16)
    failed = [line for line in found if line["logger"] == "penstock.records" and "offset" in line]
    assert len({line["offset"] for line in failed}) == 5, "so many of a kind, and no more"
    for line in failed:
        assert line["message"].startswith(
            f"record {lines}-0@{line['offset']} kept as dead letter at node parse: ValueError: no price"
        )
        assert line["error"] == "ValueError"
        assert line["line"].startswith(__file__)
    more = [line["message"] for line in found if "without a line" in line["message"]]
    assert more == ["16 more at node parse: processing_error, ValueError, without a line of their own"]
    parsed = [line["message"] for line in found if line["level"] == "INFO" and line["logger"] == SHOP]
    assert parsed == ["parsed fine"]


def test_what_was_logged_before_a_failure_is_told_with_it(cluster, start, capsys):
    lines = cluster.topic("lines")
    cluster.send(lines, ("a", "odd", START), ("a", "bad", START))
    app = start.app(program(lines))
    with alone(), pytest.raises(ProcessingError, match="no price"):
        app.run()
    err = capsys.readouterr().err
    assert f"WARNING [{app.application_id}, epoch 1, lane" in err
    assert f"parse, {lines}-0@0] an odd value: odd" in err
    assert f"ERROR [{app.application_id}" in err, "what ended it is a line, too"
