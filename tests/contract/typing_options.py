"""Options as type checkers see them: what is right passes, what is wrong is an error of mypy --strict and of pyright.

An ``ignore`` that is not needed is an error, too: so each of them says that the line would be refused.
"""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

from penstock import App, KeyQuery, QueryResult, Serdes, StreamsBuilder, TimeWindows, Topology
from penstock.setting_types import AllSettings
from penstock.testing import TopologyTestDriver


def topology() -> Topology:
    """Say the least."""
    builder = StreamsBuilder()
    builder.stream("lines", value=Serdes.string).to("copies")
    return builder.build()


def right() -> App:
    """Give options of every kind."""
    app = App(
        topology(),
        application_id="copies",
        processing_guarantee="at_least_once",
        on_processing_error=lambda error: "skip",
        on_deserialization_error="dead_letter",
        dead_letter_topic="dead",
        on_uncaught_error="restart",
        optimize="none",
        lanes=2,
        admin=8080,
        kafka={"security.protocol": "SSL"},
        user_config={"limit": 5},
    )
    app.change(cache_max_bytes=0)
    assert_type(app.query("counts", KeyQuery("a"), wait_ms=5), QueryResult)
    return app


def of_the_driver() -> TopologyTestDriver:
    """Give settings to the test driver: named, or in a mapping."""
    settings: AllSettings = {"application_id": "copies", "lanes": 2, "on_processing_error": "skip"}
    driver = TopologyTestDriver(topology(), config=settings, shards=4)
    driver.advance_wall_clock(timedelta(seconds=5))
    return driver


def wrong() -> None:
    """Give what is refused: an unknown name, a value of another type, a word that is none of the choices."""
    App(topology(), application_id="copies", lane=4)  # type: ignore[call-arg]
    App(topology(), application_id="copies", lanes="many")  # type: ignore[arg-type]
    App(topology(), application_id="copies", processing_guarantee="perhaps")  # type: ignore[arg-type]
    App(topology(), application_id="copies", on_processing_error="ignore")  # type: ignore[arg-type]
    App(topology(), application_id="copies", optimize="most")  # type: ignore[arg-type]
    App("copies", application_id="copies")  # type: ignore[arg-type]
    App(topology(), application_id="copies").change(shards=4)  # type: ignore[call-arg]
    settings: AllSettings = {"lane": 2}  # type: ignore[typeddict-unknown-key]
    TopologyTestDriver(topology(), config=settings, lane=2)  # type: ignore[call-arg]
    TimeWindows("a minute")  # type: ignore[arg-type]
    StreamsBuilder().stream("lines", value=str)  # type: ignore[arg-type]
    StreamsBuilder().stream("lines").filter(lambda key: True)  # type: ignore[arg-type, misc]
