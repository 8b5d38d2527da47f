"""Kafka: producer, admin, partitioner, internal topics; and its in-memory twin."""
