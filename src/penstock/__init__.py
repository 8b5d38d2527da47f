"""Kafka Streams for Python, run on Apache Spark."""
