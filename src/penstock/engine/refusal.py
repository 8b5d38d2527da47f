"""Rows that their topic does not take: known before they are sent, and judged by the production policy.

The client refuses a row when it is handed over (``message.max.bytes``). A topic with a smaller limit (``max.message.bytes``) would
refuse the row's whole batch when it is too late to go on without it, so the limits are known here and asked first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.errors import ProductionError
from penstock.lane.envelope import unpack_place
from penstock.lane.failure import decide, error_headers
from penstock.log.base import Row, RowColumns
from penstock.log.row_size import row_bytes
from penstock.record import NO_ORIGIN, Origin

if TYPE_CHECKING:
    from penstock.engine.commit import Work


class Judge:
    """Judges rows of one epoch. ``places``: where each row came from, by its position; none where nobody wants to know."""

    def __init__(self, work: Work, places: Sequence[bytes | None] = ()) -> None:
        self._work = work
        self._places = places
        self._at = 0

    def hand_over(self, columns: RowColumns) -> None:
        """Hand over the rows that their topic takes; the others are judged on the way."""
        producer = self._work.producer
        if self._places or columns.topic in self._work.limits:
            producer.produce(self._asked(columns.rows()), self.refuse)
        else:
            producer.produce_columns(columns, self.refuse)

    def _asked(self, rows: Iterable[Row]) -> Iterator[Row]:
        limits = self._work.limits
        for self._at, row in enumerate(rows):
            limit = limits.get(row[0])
            if limit is None or (size := row_bytes(row)) <= limit:
                yield row
            else:
                said = f"a row of {size} bytes for {row[0]} is too large: the topic takes {limit} (max.message.bytes)"
                self.refuse(row, ProductionError(said))

    def refuse(self, row: Row, error: ProductionError) -> None:
        """Ask the policy about a row; raises if it says fail. A dead letter is the source record, as for all other failures."""
        work, origin = self._work, self._origin()
        error = error if origin is NO_ORIGIN else ProductionError(str(error), origin=origin)
        answer = decide(work.config["on_production_error"], error, row)
        if answer == "fail":
            raise error
        topic, _, _, _, timestamp, headers = row
        work.refused[topic] += 1
        work.written[topic] -= 1
        if answer == "dead_letter":
            letters = work.config["dead_letter_topic"]
            added = error_headers(headers, origin, error)
            work.producer.produce([(letters, None, origin.key, origin.value, timestamp, added)])
            work.written[letters] += 1

    def _origin(self) -> Origin:
        place = self._places[self._at] if self._places else None
        return NO_ORIGIN if place is None else unpack_place(place, self._work.orders.topics)
