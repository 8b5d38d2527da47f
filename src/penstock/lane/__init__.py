"""Runs the nodes of a topology over the records of a shard. Never imports pyspark: it lives in a Spark Python worker."""
