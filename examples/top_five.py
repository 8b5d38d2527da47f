"""The five shares of each industry with the largest volume: a grouped table with an adder and a subtractor.

``volumes`` is a table: the newest volume of each share. When a row changes, its old value is taken out of the group it was in
(the subtractor) and the new one is added to the group it is in now (the adder); so a share whose volume falls leaves the top five, one
that is deleted or changes its industry does so, too. The aggregate holds every share of an industry, because who is sixth today may
be fifth tomorrow; only the first five are written.

With a broker (``penstock dev``) and the topics ``volumes`` and ``top-five``::

    penstock run examples/top_five.py:app
"""

from typing import TypedDict

from penstock import App, StreamsBuilder

FIRST = 5


class Volume(TypedDict):
    """How many shares were traded of one symbol."""

    industry: str
    shares: int


class Ranked(TypedDict):
    """A share in the aggregate of its industry."""

    symbol: str
    shares: int


Volumes = dict[str, int]


def by_industry(symbol: str, volume: Volume) -> tuple[str, Ranked]:
    """Return the group of a row, and what of it goes there."""
    return volume["industry"], {"symbol": symbol, "shares": volume["shares"]}


def add(industry: str, share: Ranked, volumes: Volumes) -> Volumes:
    """Put a share into its industry."""
    return {**volumes, share["symbol"]: share["shares"]}


def subtract(industry: str, share: Ranked, volumes: Volumes) -> Volumes:
    """Take a share out of the industry it was in."""
    return {symbol: shares for symbol, shares in volumes.items() if symbol != share["symbol"]}


def top(volumes: Volumes) -> list[list[str | int]]:
    """Return the five largest; of equal ones the first by name."""
    ranked = sorted(volumes.items(), key=lambda row: (-row[1], row[0]))
    return [[symbol, shares] for symbol, shares in ranked[:FIRST]]


builder = StreamsBuilder()
(
    builder.table("volumes", store="volumes")
    .group_by(by_industry, name="by-industry")
    .aggregate(dict, add, subtract, store="industries")
    .map_values(top)
    .to_stream()
    .to("top-five")
)

app = App(builder, application_id="top-five")

if __name__ == "__main__":
    app.run()
