"""Stores as DataFrames: any Spark session reads any store, at the last committed barrier, whether the application runs or not.

    from penstock import sql

    totals = sql.frame(spark, "shop", "totals", bootstrap_servers="localhost:9092", value="orders bigint, amount double")
    totals.createOrReplaceTempView("totals")
    spark.sql("SELECT key, value.amount, name FROM totals JOIN customers ON key = customers.id")

or, in a session that never imported Penstock, wherever it is installed::

    spark.read.format("penstock").option("application_id", "shop").option("store", "totals")
         .option("bootstrap_servers", "localhost:9092").load()

See ``docs/sql.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from penstock.serde import Serde

__all__ = ["frame", "register"]


def frame(
    spark: SparkSession,
    application_id: str,
    store: str,
    *,
    bootstrap_servers: str,
    kafka: Mapping[str, Any] | None = None,
    key: Serde[Any] | DataType | str | None = None,
    value: Serde[Any] | DataType | str | None = None,
) -> DataFrame:
    """Return a store at the last committed barrier as a DataFrame: key, value, timestamp, window_start, window_end, shard.

    ``key``, ``value``: how the bytes are shown. None: by the serde that the application has, as text, number, JSON text, else as bytes.
    A serde of Penstock or its name: by that one. A Spark schema (``StructType`` or ``"n bigint, name string"``): JSON, as a struct.
    ``kafka``: client settings, as those of `App`.

    It is read when Spark runs a query on it, one task per shard, up to the barrier that is the last one then. Raises ``StoreError``
    if there is no such store, or one that is in no topic.
    """
    from penstock.sql import spark_source  # PySpark is loaded when it is asked for

    made: DataFrame = spark_source.frame(
        spark, application_id, store, bootstrap_servers=bootstrap_servers, kafka=kafka, key=key, value=value
    )
    return made


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("penstock")`` known to a session that has not found it by itself."""
    from penstock.sql.spark_source import PenstockDataSource

    spark.dataSource.register(PenstockDataSource)
