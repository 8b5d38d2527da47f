"""examples/replay.py: history that is read again gives what it gave when it came."""

import json
from datetime import UTC, datetime

from examples.replay import replay, topology

from penstock.testing import TopologyTestDriver

HOUR = 3_600_000
START = 1_700_000_000_000


def test_an_order_meets_the_price_that_holds():
    with TopologyTestDriver(topology()) as driver:
        prices, orders = driver.input_topic("prices"), driver.input_topic("orders")
        orders.pipe("apple", {"quantity": 9}, 1)  # has no price yet
        for time, cents in ((2, 10), (4, 20)):
            prices.pipe("apple", {"cents": cents}, time)
            orders.pipe("apple", {"quantity": 2}, time + 1)
        totals = [value["total"] for value in driver.output_topic("priced").read_values()]
    assert totals == [20, 40]


def committed(cluster, topic):
    return [(key, json.loads(value)["total"]) for key, value in cluster.texts(topic)]


def finish(app, cluster, topic, count):
    """Run an application until so many rows are committed."""
    app.start().wait_until_running(120_000)
    end = {(topic, 0): count - 1}
    app.barriers.wait(end, wait_ms=60_000)
    app.close()


def test_on_spark_a_replay_gives_the_rows_that_came_live_though_all_prices_are_there_now(start, cluster, topics):
    prefix = topics("prices", "orders", "priced")
    prices, orders, priced = (f"{prefix}{word}" for word in ("prices", "orders", "priced"))
    live = start(topology(prefix))
    for hour in range(12):
        cluster.send(prices, ("apple", json.dumps({"cents": hour}), START + hour * HOUR))
        live.drain()
        cluster.send(orders, ("apple", json.dumps({"quantity": 2}), START + hour * HOUR + 1))
        live.drain()
    live.close()
    came = committed(cluster, priced)
    assert came == [("apple", 2 * hour) for hour in range(12)]

    again = start.app(topology(prefix), max_epoch_records=5)
    replay(again)
    finish(again, cluster, orders, cluster.log.admin.stable_offsets([(orders, 0)])[orders, 0])
    assert committed(cluster, priced) == came + came

    later = start.app(topology(prefix), max_epoch_records=5)
    replay(later, datetime.fromtimestamp(START / 1000 + 8 * 3600, UTC))
    finish(later, cluster, orders, cluster.log.admin.stable_offsets([(orders, 0)])[orders, 0])
    assert committed(cluster, priced) == came + came + came[8:]
