"""examples/store_in_sql.py: what Spark SQL sees of a store, joined with a file."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
from examples.store_in_sql import report, topology

from penstock.testing import TopologyTestDriver


def test_orders_of_a_customer_are_counted_and_added_up():
    with TopologyTestDriver(topology()) as driver:
        for customer, amount in (("ann", 2.5), ("ben", 1.0), ("ann", 4.0)):
            driver.input_topic("shop.orders").pipe(customer, {"amount": amount})
        assert dict(driver.store("totals").all()) == {
            "ann": {"orders": 2, "amount": 6.5},
            "ben": {"orders": 1, "amount": 1.0},
        }


def test_on_spark_the_report_joins_the_store_with_a_file(start, cluster, topics, spark_session, tmp_path):
    orders = f"{topics('orders')}orders"
    rows = [("ann", 2.5), ("ben", 1.0), ("cleo", 8.0), ("ann", 4.0), ("dora", 100.0)]
    cluster.send(orders, *[(customer, json.dumps({"amount": amount}), 1) for customer, amount in rows])
    start(topology(orders)).drain()
    customers = tmp_path / "customers.parquet"
    pq.write_table(pa.table({"id": ["ann", "ben", "cleo"], "country": ["DE", "DE", "EG"]}), customers)
    found = report(spark_session, cluster.servers, str(customers), start.application_id).collect()
    assert [tuple(row) for row in found] == [("EG", 1, 1, 8.0), ("DE", 2, 3, 7.5)]
