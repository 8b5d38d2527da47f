"""Dead letters of a batch, in the order of its records: by column one node has its turn after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.batch.provenance import Provenance
from penstock.lane.sink import Row, SinkBatch
from penstock.record import Origin


def order_dead_letters(
    outputs: list[Row | SinkBatch], begin: int, topic: str | None, provenance: Provenance | None
) -> None:
    """Bring the dead letters from a place in the outputs on into the order of their records.

    ``provenance``: where the records of the batch are from, if it was of one source.
    """
    at = [place for place in range(begin, len(outputs)) if _is_dead_letter(outputs[place], topic)]
    if len(at) < 2:
        return
    for place, letter in zip(at, sorted((outputs[place] for place in at), key=_order(provenance)), strict=True):
        outputs[place] = letter


def _is_dead_letter(row: Row | SinkBatch, topic: str | None) -> bool:
    return isinstance(row, Row) and row.topic == topic


def _order(provenance: Provenance | None) -> Callable[[Any], Any]:
    """Return the place of a letter's record: in the batch, if it is of one topic and thus maybe as it was read; else in the lane."""
    numbers = None if provenance is None else provenance.arrays
    if numbers is None or "sub" in numbers or (numbers["topic"] != numbers["topic"][0]).any():
        return lambda letter: _order_of(letter.origin)
    records = zip(numbers["partition"].tolist(), numbers["offset"].tolist(), strict=True)
    places = {record: place for place, record in enumerate(records)}
    return lambda letter: places.get((letter.origin.partition, letter.origin.offset), -1)


def _order_of(origin: Origin) -> tuple[Any, ...]:
    return origin.reached, origin.topic or "", origin.partition, origin.offset, origin.sub
