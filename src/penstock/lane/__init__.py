"""Runs the nodes of a topology over the records of a shard: in a Python worker of Spark, and only there."""
