"""Error policies: fail, skip, dead_letter or a function, in three places."""

import pytest

from penstock import DeserializationError, ProcessingError, Serdes, SerializationError, StreamsBuilder
from penstock.testing import TopologyTestDriver

PLACES = ["on_deserialization_error", "on_processing_error", "on_production_error"]


def build():
    builder = StreamsBuilder()

    def check(value):
        if value == "processing":
            raise ValueError("not this one")
        return object() if value == "production" else value

    builder.stream("in").map_values(check).to("out")
    return builder


def pipe(driver, place):
    kind = place.split("_")[1]
    if kind == "deserialization":
        driver.input_topic("in", value=Serdes.bytes).pipe("bad", b"{not json", timestamp=9, headers=[("h", b"1")])
    else:
        driver.input_topic("in").pipe("bad", kind, timestamp=9, headers=[("h", b"1")])


@pytest.mark.parametrize("config", [{}, "fail"])
@pytest.mark.parametrize(
    ("place", "error"), list(zip(PLACES, [DeserializationError, ProcessingError, SerializationError], strict=True))
)
def test_by_default_an_error_stops(place, error, config):
    with (
        TopologyTestDriver(build(), config=config if config == {} else {place: config}) as driver,
        pytest.raises(error),
    ):
        pipe(driver, place)


@pytest.mark.parametrize("place", PLACES)
def test_skip_goes_on_and_counts(place):
    with TopologyTestDriver(build(), config={place: "skip"}) as driver:
        pipe(driver, place)
        driver.input_topic("in").pipe("good", 1)
        assert driver.output_topic("out").read_values() == [1]
        assert driver.metrics()["dropped_records"] == 1


@pytest.mark.parametrize("place", PLACES)
def test_dead_letters_have_the_raw_record_and_say_why(place):
    with TopologyTestDriver(build(), config={place: "dead_letter", "dead_letter_topic": "dead"}) as driver:
        pipe(driver, place)
        driver.input_topic("in").pipe("good", 1)
        assert driver.output_topic("out").read_values() == [1]
        letter = driver.output_topic("dead", value=Serdes.bytes).read()
        assert letter.key == "bad"
        assert letter.value == (b"{not json" if place == PLACES[0] else b'"%s"' % place.split("_")[1].encode())
        headers = dict(letter.headers)
        assert headers["h"] == b"1"
        for name in ("exception", "message", "stacktrace", "topic", "partition", "offset"):
            assert f"__streams.errors.{name}" in headers
        assert headers["__streams.errors.topic"] == b"in"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "policy",
    [
        lambda error: "skip",
        lambda error, record: "skip",
        lambda context, record, exception: "skip" if isinstance(exception, Exception) else "fail",
        lambda *anything: "skip",
    ],
    ids=["error", "error and record", "as in Kafka", "anything"],
)
def test_a_function_decides(place, policy):
    with TopologyTestDriver(build(), config={place: policy}) as driver:
        pipe(driver, place)
        assert driver.metrics()["dropped_records"] == 1


@pytest.mark.parametrize("place", PLACES)
def test_an_unknown_policy_is_refused_at_once(place):
    with pytest.raises(Exception, match=r"skip"):
        TopologyTestDriver(build(), config={place: "skp"})


def test_dead_letters_need_a_topic():
    with (
        pytest.raises(Exception, match=r"dead_letter_topic"),
        TopologyTestDriver(build(), config={"on_processing_error": "dead_letter"}) as driver,
    ):
        pipe(driver, "on_processing_error")


def test_an_unknown_setting_says_the_nearest():
    with pytest.raises(Exception, match=r"on_processing_error"):
        TopologyTestDriver(build(), config={"on_procesing_error": "skip"})


def test_an_error_says_node_record_and_function():
    with TopologyTestDriver(build()) as driver, pytest.raises(ProcessingError) as caught:
        pipe(driver, "on_processing_error")
    text = str(caught.value)
    for part in ("not this one", "KSTREAM-MAPVALUES-0000000001", "in-0@0", "check"):
        assert part in text
    assert isinstance(caught.value.__cause__, ValueError)
