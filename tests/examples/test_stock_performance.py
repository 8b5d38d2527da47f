"""examples/stock_performance.py reports the shares that move, and only those."""

from examples.stock_performance import PRICES, builder

from penstock.testing import TopologyTestDriver


def trade(driver, *trades):
    topic = driver.input_topic("trades")
    for second, symbol, price in trades:
        topic.pipe(symbol, {"price": price}, second * 1000)
    return [(record.key, record.value) for record in driver.output_topic("stock-performance").read_all()]


def test_a_share_that_moves_is_reported_when_ten_seconds_have_passed():
    with TopologyTestDriver(builder) as driver:
        assert trade(driver, (1, "A", 100.0), (2, "A", 110.0)) == []
        assert trade(driver, (10, "A", 120.0)) == [("A", {"price": 120.0, "mean": 110.0, "change": 0.0909})]


def test_a_share_that_stays_where_it_was_is_not_reported():
    with TopologyTestDriver(builder) as driver:
        assert trade(driver, (1, "A", 100.0), (2, "A", 101.0), (25, "A", 100.0)) == []
        assert driver.store("shares").get("A")["prices"] == [100.0, 101.0, 100.0]


def test_only_the_last_prices_count():
    with TopologyTestDriver(builder) as driver:
        assert trade(driver, *[(1, "A", 1.0)] * 5, *[(2, "A", 100.0)] * PRICES, (11, "A", 100.0)) == []
        assert driver.store("shares").get("A") == {"prices": [100.0] * PRICES, "mean": 100.0, "change": 0.0}


def test_shares_of_different_shards_keep_their_own_statistics():
    with TopologyTestDriver(builder) as driver:
        symbols = [f"S{number}" for number in range(8)]
        trade(driver, *[(1, symbol, 10.0) for symbol in symbols])
        trade(driver, *[(12, symbol, 30.0) for symbol in symbols])
        rows = dict(trade(driver, (20, "quiet", 1.0)))
        assert rows == {symbol: {"price": 30.0, "mean": 20.0, "change": 0.5} for symbol in symbols}
