"""Kafka's protocol as data: bytes in, bytes out, no I/O."""
