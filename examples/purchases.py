"""The program of ``penstock demo``: a re-key, a join with a table, a table of sums and a tumbling window.

Read it in ``penstock.cli.demo_topology``; ``penstock topology examples/purchases.py:builder`` shows its topology,
``penstock demo`` runs it on Kafka and Spark.

Prints::

    customer-01 bought for 5.20
    customer-02 bought for 6.40
    customer-01 bought for 9.20
    fruit [09:00:00, 09:00:10) 4.00
    dairy [09:00:00, 09:00:10) 5.20
    bakery [09:00:00, 09:00:10) 6.40
"""

from datetime import UTC, datetime

from penstock import Serdes
from penstock.cli.demo_topology import REVENUE_KEY, START
from penstock.cli.demo_topology import builder as builder
from penstock.testing import TopologyTestDriver


def clock(milliseconds: int) -> str:
    """Write a time of day."""
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%H:%M:%S}"


def main() -> None:
    """Send three purchases through, and print what comes out."""
    with TopologyTestDriver(builder()) as driver:
        products, purchases = driver.input_topic("products"), driver.input_topic("purchases")
        for name, category, cents in (("milk", "dairy", 130), ("bread", "bakery", 320), ("apple", "fruit", 40)):
            products.pipe(name, {"category": category, "cents": cents}, START)
        purchases.pipe("p1", {"customer": "customer-01", "product": "milk", "quantity": 4}, START + 1_000)
        purchases.pipe("p2", {"customer": "customer-02", "product": "bread", "quantity": 2}, START + 2_000)
        purchases.pipe("p3", {"customer": "customer-01", "product": "apple", "quantity": 10}, START + 3_000)
        for record in driver.output_topic("customer-spend", value=Serdes.int64).read_all():
            print(f"{record.key} bought for {record.value / 100:.2f}")
        revenue = driver.output_topic("category-revenue", key=REVENUE_KEY, value=Serdes.int64).read_table()
        for window, cents in sorted(revenue.items(), key=lambda row: row[1]):
            print(f"{window.key} [{clock(window.start)}, {clock(window.end)}) {cents / 100:.2f}")


if __name__ == "__main__":
    main()
