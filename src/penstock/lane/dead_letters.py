"""Dead letters of a batch, in the order of its records: by column one node has its turn after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.lane.sink import Row, SinkColumns
from penstock.record import Origin
from penstock.serde.columns import Spots


def order_dead_letters(outputs: list[Row | SinkColumns], begin: int, topic: str | None, spots: Spots | None) -> None:
    """Bring the dead letters from a place in the outputs on into the order of their records.

    ``spots``: where the records of the batch are from, if it was of one source.
    """
    at = [place for place in range(begin, len(outputs)) if _is_letter(outputs[place], topic)]
    if len(at) < 2:
        return
    for place, letter in zip(at, sorted((outputs[place] for place in at), key=_order(spots)), strict=True):
        outputs[place] = letter


def _is_letter(row: Row | SinkColumns, topic: str | None) -> bool:
    return isinstance(row, Row) and row.topic == topic


def _order(spots: Spots | None) -> Callable[[Any], Any]:
    """Return the place of a letter's record: in the batch, if it is of one topic and thus maybe as it was read; else in the lane."""
    numbers = None if spots is None else spots.arrays
    if numbers is None or "sub" in numbers or (numbers["topic"] != numbers["topic"][0]).any():
        return lambda letter: _order_of(letter.origin)
    records = zip(numbers["partition"].tolist(), numbers["offset"].tolist(), strict=True)
    places = {record: place for place, record in enumerate(records)}
    return lambda letter: places.get((letter.origin.partition, letter.origin.offset), -1)


def _order_of(origin: Origin) -> tuple[Any, ...]:
    return origin.reached, origin.topic or "", origin.partition, origin.offset, origin.sub
