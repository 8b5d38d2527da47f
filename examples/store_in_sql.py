"""What every customer has bought, kept by an application, and joined with a Parquet file by Spark SQL.

The application counts and adds up orders: ``python store_in_sql.py``. The report reads its store ``totals`` as of the
last committed barrier, from any Spark session, while the application runs or when it does not: ``python
store_in_sql.py customers.parquet``, a file with the columns ``id`` and ``country``.
"""

import sys
from typing import Any

from penstock import App, Serdes, StreamsBuilder, sql

SERVERS = "localhost:9092"


def add(customer: str, order: dict[str, Any], total: dict[str, Any]) -> dict[str, Any]:
    """Add an order to the total of its customer."""
    return {"orders": total["orders"] + 1, "amount": total["amount"] + order["amount"]}


def topology(orders: str = "shop.orders") -> StreamsBuilder:
    """Count and add up the orders of each customer."""
    builder = StreamsBuilder()
    (
        builder.stream(orders, key=Serdes.string, value=Serdes.json)
        .group_by_key()
        .aggregate(lambda: {"orders": 0, "amount": 0.0}, add, store="totals")
    )
    return builder


app = App(topology(), application_id="shop", bootstrap_servers=SERVERS)


def report(spark: Any, servers: str, customers: str, application_id: str = "shop") -> Any:
    """Return what the customers of each country have bought."""
    schema = "orders bigint, amount double"
    sql.frame(spark, application_id, "totals", bootstrap_servers=servers, value=schema).createOrReplaceTempView(
        "totals"
    )
    spark.read.parquet(customers).createOrReplaceTempView("customers")
    return spark.sql(
        """
        SELECT country, count(*) AS customers, sum(value.orders) AS orders, sum(value.amount) AS amount
        FROM totals JOIN customers ON totals.key = customers.id
        GROUP BY country ORDER BY amount DESC
        """
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        from pyspark.sql import SparkSession

        report(SparkSession.builder.getOrCreate(), SERVERS, sys.argv[1]).show()
    else:
        app.run()
