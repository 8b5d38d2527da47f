"""What a user looked at and what they bought, in one row: co-grouping two topics.

Each topic has an aggregator of its own; both fold into the same row of one table, without a join and with one store. Clicks have
the user as their key; trades have the number of the trade, and are grouped by the user that they name.

With a broker (``penstock dev``) and the topics ``clicks``, ``trades`` and ``activity``::

    penstock run examples/clicks_and_trades.py:app
"""

from typing import TypedDict

from penstock import App, StreamsBuilder


class Click(TypedDict):
    """A user has opened the page of a share."""

    symbol: str


class Trade(TypedDict):
    """A user has bought shares."""

    user: str
    symbol: str
    shares: int


class Activity(TypedDict):
    """What is known of one user: clicks and shares bought, by symbol."""

    clicks: dict[str, int]
    shares: dict[str, int]


def nothing() -> Activity:
    """Return the row of a user that is new."""
    return {"clicks": {}, "shares": {}}


def plus(counts: dict[str, int], symbol: str, number: int) -> dict[str, int]:
    """Return the counts with a number added; what an aggregator was given it does not change."""
    return {**counts, symbol: counts.get(symbol, 0) + number}


def add_click(user: str, click: Click, activity: Activity) -> Activity:
    """Count a click."""
    return {"clicks": plus(activity["clicks"], click["symbol"], 1), "shares": activity["shares"]}


def add_trade(user: str, trade: Trade, activity: Activity) -> Activity:
    """Add up the shares of a trade."""
    return {"clicks": activity["clicks"], "shares": plus(activity["shares"], trade["symbol"], trade["shares"])}


builder = StreamsBuilder()
clicks = builder.stream("clicks").group_by_key()
trades = builder.stream("trades").group_by(lambda _, trade: trade["user"], name="trades-by-user")
clicks.cogroup(add_click).cogroup(trades, add_trade).aggregate(nothing, store="activity").to_stream().to("activity")

app = App(builder, application_id="clicks-and-trades")

if __name__ == "__main__":
    app.run()
