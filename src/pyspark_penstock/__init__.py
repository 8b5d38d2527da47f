"""Found by PySpark by its name: it looks for modules ``pyspark_*`` and offers their ``DefaultSource`` in every session."""

from penstock.sql.spark_source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
