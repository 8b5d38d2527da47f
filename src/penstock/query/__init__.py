"""Queries: snapshots of all stores at one barrier, every query of Kafka Streams, and what is told at each barrier."""
