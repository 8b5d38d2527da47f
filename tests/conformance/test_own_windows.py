"""Windows of the user's own that say what built-in ones say equal Kafka's built-in ones: outputs, stores, changelogs, describe().

Kafka's `Windows` is an abstract class, which Python cannot subclass; so the Java side has the windows of the same meaning.
"""

from typing import Any

import oracle
import pytest
from sequences import append, check, empty, glue, kept, scripts

from penstock.serde import Serdes
from penstock.windows import FOREVER, TimeWindows, UnlimitedWindows, Windows

pytestmark = pytest.mark.capability("KG4", "TW1")

INPUTS = {"in": (Serdes.string, Serdes.string)}
TEXT = {"key": Serdes.string, "value": Serdes.string}


class Hopping(Windows):
    """TimeWindows said in another way."""

    def __init__(self, like: TimeWindows) -> None:
        self._like = like

    @property
    def size(self) -> int:
        return self._like.size

    @property
    def grace(self) -> int:
        return self._like.grace

    def starts_for(self, timestamp: int) -> list[int]:
        advance = self._like.advance
        first = timestamp // advance * advance
        return sorted(start for start in range(first, max(-1, timestamp - self.size), -advance) if start >= 0)


class Since(Windows):
    """UnlimitedWindows said in another way."""

    size, grace = FOREVER, 0

    def __init__(self, start: int) -> None:
        self.start = start

    def starts_for(self, timestamp: int) -> list[int]:
        return [self.start] if timestamp >= self.start else []


PAIRS = {
    "tumbling": (TimeWindows(10), Hopping(TimeWindows(10))),
    "hopping with grace": (TimeWindows(10, advance=4, grace=5), Hopping(TimeWindows(10, advance=4, grace=5))),
    "unlimited": (UnlimitedWindows(start=7), Since(7)),
}
AGGREGATIONS = {
    "count": lambda windowed, store: windowed.count(store=store, key=Serdes.string, value=Serdes.int64),
    "reduce": lambda windowed, store: windowed.reduce(glue, store=store, **TEXT),
    "aggregate": lambda windowed, store: windowed.aggregate(empty, append, store=store, **TEXT),
}


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "not cached"])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("name", PAIRS)
def test_they_equal_the_built_in_ones(name, aggregation, cached):
    built_in, own = PAIRS[name]

    def topology(builder: Any) -> None:
        windows = built_in if isinstance(builder, oracle.StreamsBuilder) else own
        windowed = builder.stream("in", **TEXT).group_by_key(**TEXT).windowed_by(windows)
        table = AGGREGATIONS[aggregation](windowed, kept(built_in, cached))
        value = Serdes.int64 if aggregation == "count" else Serdes.string
        table.to_stream().to("out", key=Serdes.windowed(Serdes.string, own.size), value=value)

    for script in scripts(f"own {name}", (4, 5, 7, 10, 15), count=6):
        check(topology, script, inputs=INPUTS, compacted=not cached)
