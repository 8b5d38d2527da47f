"""Which writer is used: the one of this package where it was built and understands every setting, else librdkafka's."""

from __future__ import annotations

import os

from penstock.kafka_wire.producer import PlainWire, TransactionalWire
from penstock.kafka_wire.protocol.batches import loops
from penstock.kafka_wire.settings import NotSpoken, spoken
from penstock.log.base import Producer
from penstock.log.client import Connection, logger
from penstock.log.deadline import Deadline


def wire_producer(
    connection: Connection, deadline: Deadline, transactional_id: str | None, batch_bytes: int | None
) -> Producer | None:
    """Make a writer of this package; None if it must be librdkafka's."""
    if loops is None or os.environ.get("PENSTOCK_WIRE") == "0":
        logger.debug("rows are written by librdkafka: the loops in C were not built, or are left out")
        return None
    try:
        settings = spoken(connection.settings("producer"), batch_bytes)
        if transactional_id is None:
            return PlainWire(settings, deadline)
        return TransactionalWire(settings, deadline, transactional_id)
    except (NotSpoken, OSError) as unknown:  # certificates that cannot be read, too: it says so in its own words
        logger.debug("rows are written by librdkafka, which knows all settings: %s", unknown)
        return None
