"""Which producer is used: that of ``kafka_wire`` where it is there and understands every setting, else librdkafka's."""

from __future__ import annotations

import os
from importlib.util import find_spec

from penstock.log.base import Producer
from penstock.log.client import Connection, logger
from penstock.log.deadline import Deadline
from penstock.log.producer import PlainProducer, TransactionalProducer
from penstock.native.loader import in_c


def uses_wire() -> bool:
    """Whether the producer of ``kafka_wire`` is used: not without the loop in C, whose twin is slower than librdkafka."""
    is_there = in_c("record_batches") is not None and find_spec("penstock.kafka_wire") is not None
    return is_there and os.environ.get("PENSTOCK_WIRE") != "0"


def make_producer(
    connection: Connection, deadline: Deadline, transactional_id: str | None, batch_bytes: int | None
) -> Producer:
    """Make a producer: transactional, or without an id one that writes at least once."""
    if uses_wire():
        from penstock.log.wire_producer import wire_producer

        if (made := wire_producer(connection, deadline, transactional_id, batch_bytes)) is not None:
            return made
    else:
        logger.debug("rows are written by librdkafka: the loops in C were not built, or are left out")
    if transactional_id is None:
        return PlainProducer(connection, deadline, batch_bytes=batch_bytes)
    return TransactionalProducer(connection, deadline, transactional_id, batch_bytes=batch_bytes)
