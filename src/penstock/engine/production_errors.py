"""Rows that their topic does not accept (``engine.limits``): they are given to ``on_production_error``, not sent."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from penstock.engine.limits import TopicLimits
from penstock.engine.work import EpochContext, Work
from penstock.errors import BrokerError, ProductionError
from penstock.log.base import Row, RowColumns
from penstock.protocol.envelope import unpack_place
from penstock.protocol.failure import HEADER_PREFIX, decide, error_headers, failed_dead_letter
from penstock.record import NO_ORIGIN, Origin
from penstock.setting_checks import POLICIES, RETRY

logger = logging.getLogger("penstock.engine")


class ProductionErrorHandler:
    """Produces the rows of one epoch. ``places``: the source record of each, by position; none where rows do not carry it."""

    def __init__(self, work: Work, places: Sequence[bytes | None] = ()) -> None:
        self._work = work
        self._places = places
        self._at = 0

    def hand_over(self, columns: RowColumns) -> None:
        """Produce the rows that their topic accepts; the others are handled on the way."""
        context = self._work.context
        producer, now = context.producer, context.clock.now_ms()
        limits = context.limits.of(columns.topic)
        if self._places or limits.row_bytes is not None or not limits.takes_times(columns, now):
            producer.produce(self._asked(columns.rows(), limits, now), self.refuse)
        else:
            producer.produce_columns(columns, self.refuse)

    def _asked(self, rows: Iterable[Row], limits: TopicLimits, now: int) -> Iterator[Row]:
        letters = self._work.context.config["dead_letter_topic"]
        for self._at, row in enumerate(rows):
            taken = self._dead_letter(row) if row[0] == letters else row
            said = limits.refuses(taken, now)
            if said is None:
                yield taken
            else:
                self.refuse(row, ProductionError(said))

    def _dead_letter(self, row: Row) -> Row:
        """Return a dead letter with the nearest timestamp that its topic accepts; its own becomes a header."""
        topic, partition, key, value, time, headers = row
        context = self._work.context
        nearest = context.limits.of(topic).nearest(time, context.clock.now_ms())
        if nearest == time:
            return row
        return topic, partition, key, value, nearest, (*headers, (f"{HEADER_PREFIX}timestamp", str(time).encode()))

    def refuse(self, row: Row, error: ProductionError) -> None:
        """Apply ``on_production_error`` to a row; raise if it says fail. A dead letter is always the source record."""
        work, context, origin = self._work, self._work.context, self._origin()
        sinks = context.limits.sinks_of(row[0])
        error = ProductionError(str(error), node=sinks, origin=None if origin is NO_ORIGIN else origin)
        answer = decide(context.config["on_production_error"], error, row, answers=(*POLICIES, RETRY))
        if answer == RETRY:
            context.limits.learn([row[0]], refused=True)  # somebody may have mended it meanwhile
            error.retry = True
        if answer in ("fail", RETRY):
            raise error
        topic, _, _, _, timestamp, headers = row
        work.refused[topic] += 1
        work.failures.add(sinks or row[0], "production_error", answer, origin, error)
        work.written[topic] -= 1
        if answer == "dead_letter":
            letters = context.config["dead_letter_topic"]
            added = error_headers(headers, origin, sinks, error)
            context.producer.produce([self._dead_letter((letters, None, origin.key, origin.value, timestamp, added))])
            work.written[letters] += 1

    def _origin(self) -> Origin:
        place = self._places[self._at] if self._places else None
        return NO_ORIGIN if place is None else unpack_place(place, self._work.request.topics)


def keep_failed_record(context: EpochContext, error: BaseException) -> None:
    """Write the record that ends the application to the dead-letter topic, if that is asked for (``dead_letter_failures``)."""
    row = failed_dead_letter(context.config, error)
    if row is None:
        return
    time = context.limits.of(row[0]).nearest(row[4], context.clock.now_ms())
    try:
        context.producer.begin()
        context.producer.produce([(*row[:4], time, row[5])])
        context.producer.commit()
    except BrokerError as failed:
        logger.warning("the record that ends the application has no dead letter: %s", failed)
