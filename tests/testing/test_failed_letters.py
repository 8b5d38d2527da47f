"""A record that ends the application leaves a dead letter, if that is asked for: in the driver as in production."""

import pytest

from penstock import ConfigError, DeserializationError, ProcessingError, Serdes, StreamsBuilder
from penstock.config import load
from penstock.testing import TopologyTestDriver

CONFIG = {"dead_letter_topic": "dead", "dead_letter_failures": True}


def upper():
    builder = StreamsBuilder()
    builder.stream("in", value=Serdes.json).map_values(lambda value: value["name"].upper(), name="upper").to("out")
    return builder


@pytest.mark.parametrize("auto_commit", [True, False])
@pytest.mark.parametrize(
    ("value", "kind", "name"),
    [(b'{"n": 1}', ProcessingError, b"KeyError"), (b"{", DeserializationError, b"JSONDecodeError")],
)
def test_the_record_is_kept_as_it_came_with_what_it_raised(auto_commit, value, kind, name):
    with TopologyTestDriver(upper(), config=CONFIG, auto_commit=auto_commit) as driver:

        def pipe():
            driver.pipe_raw("in", 0, b"k", value, 7, (("h", b"1"),))
            driver.commit()

        with pytest.raises(kind):
            pipe()
        (letter,) = driver.all_output()["dead"]
        assert letter[:3] == (b"k", value, 7)
        headers = dict(letter[3])
        assert headers["h"] == b"1"
        assert headers["__streams.errors.exception"].endswith(name)
        assert headers["__streams.errors.offset"] == b"0"


def test_nothing_is_kept_unless_asked_for():
    with TopologyTestDriver(upper(), config={"dead_letter_topic": "dead"}) as driver:
        with pytest.raises(ProcessingError):
            driver.pipe_raw("in", 0, b"k", b"{}", 7)
        assert "dead" not in driver.all_output()


def test_it_needs_a_topic():
    with pytest.raises(ConfigError, match="dead_letter_topic"):
        load({"dead_letter_failures": True}, environ={})
