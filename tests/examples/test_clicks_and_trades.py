"""examples/clicks_and_trades.py folds two topics into one row for each user."""

from examples.clicks_and_trades import builder

from penstock.testing import TopologyTestDriver


def test_clicks_and_trades_of_a_user_meet_in_one_row():
    with TopologyTestDriver(builder) as driver:
        clicks, trades = driver.input_topic("clicks"), driver.input_topic("trades")
        clicks.pipe("ann", {"symbol": "A"}, 1)
        trades.pipe("t1", {"user": "ann", "symbol": "A", "shares": 10}, 2)
        clicks.pipe("ann", {"symbol": "A"}, 3)
        clicks.pipe("ben", {"symbol": "B"}, 4)
        trades.pipe("t2", {"user": "ann", "symbol": "A", "shares": 5}, 5)
        assert driver.output_topic("activity").read_table() == {
            "ann": {"clicks": {"A": 2}, "shares": {"A": 15}},
            "ben": {"clicks": {"B": 1}, "shares": {}},
        }


def test_every_change_is_a_whole_row():
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("trades").pipe("t1", {"user": "ann", "symbol": "A", "shares": 10}, 1)
        driver.input_topic("clicks").pipe("ann", {"symbol": "B"}, 2)
        assert driver.output_topic("activity").read_values() == [
            {"clicks": {}, "shares": {"A": 10}},
            {"clicks": {"B": 1}, "shares": {"A": 10}},
        ]


def test_a_click_without_a_user_is_dropped_and_counted():
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("clicks").pipe(None, {"symbol": "A"}, 1)
        assert driver.output_topic("activity").read_all() == []
        assert sum(driver.metrics()["dropped_by_reason"].values()) == 1
