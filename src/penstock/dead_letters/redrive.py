"""Write the records of dead letters into their source topics again, each once.

A record and the marks of its letters (``dead_letters.marks``) are written in one transaction. The order that makes it exactly once:

1. take over the transactional id of the topic: an earlier redrive, killed or still running, commits nothing from here on;
2. read the marks: now they say all that was ever redriven;
3. write records and marks, some hundred letters to a transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.clock import Clock, SystemClock
from penstock.dead_letters.filters import LetterFilter
from penstock.dead_letters.letter import REDRIVE_PREFIX, DeadLetter
from penstock.dead_letters.marks import ensure_marks_topic, wait_for_marks
from penstock.dead_letters.planning import RedrivePlan, RefusedLetter, plan_redrive
from penstock.errors import BrokerError, FencedError, ProductionError
from penstock.log.base import Log, Offsets, Producer, Row

#: a transaction has at most so many records, and ends once it has so many bytes
MOST_RECORDS = 500
MOST_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class RedriveResult:
    """What a redrive has done: records written, letters settled by them, letters that were redriven before, letters left."""

    records: int
    letters: int
    already: int
    refused: tuple[RefusedLetter, ...]


def transactional_id(topic: str) -> str:
    """Return the id of the producer that redrives from a dead-letter topic: one at a time."""
    return f"penstock-redrive-{topic}"


def redrive(
    log: Log,
    topic: str,
    chosen: LetterFilter,
    *,
    ends: Offsets | None = None,
    clock: Clock | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RedriveResult:
    """Redrive the chosen letters of a dead-letter topic that were not redriven, below ``ends`` (now, if not given).

    ``progress`` is told after every transaction how many records are written, of how many. A redrive that is begun meanwhile fences this
    one: ``FencedError``. After any error what was committed stays, and the same call goes on with the rest.
    """
    ensure_marks_topic(log, topic)
    producer = log.producer(transactional_id(topic))
    try:
        producer.init()
        plan = plan_redrive(log, topic, chosen, ends=ends, settled=True)
        writer = _Writer(producer, plan, clock or SystemClock())
        for written in writer.run(log):
            if progress is not None:
                progress(written, len(plan.records))
        wait_for_marks(log, topic)
    except FencedError as error:
        raise FencedError(
            f"another redrive from {topic} was begun: this one stops. What it had written stays and is not written again; what is "
            "left, the other one or the next redrives",
            code=error.code,
            fatal=True,
        ) from error
    finally:
        producer.close()
    return RedriveResult(len(plan.records), plan.letters, plan.already, tuple(plan.refused))


class _Writer:
    """Writes what a plan says, in transactions."""

    def __init__(self, producer: Producer, plan: RedrivePlan, clock: Clock) -> None:
        self._producer = producer
        self._plan = plan
        self._now = clock.now_ms()

    def run(self, log: Log) -> Iterator[int]:
        """Write everything; yield after each transaction how many records are written."""
        forget = [*self._plan.marks.rows_to_forget(log.admin.earliest_offsets(self._plan.ends), self._now)]
        written = 0
        for some in _batches(self._letters(log)):
            self._commit([*forget, *self._rows(some)])
            forget, written = [], written + len(some)
            yield written

    def _letters(self, log: Log) -> Iterator[DeadLetter]:
        """Yield the letters whose records are written, by partition and offset: those of one key in their order."""
        reader = log.reader()
        try:
            for place, (first, after) in sorted(self._plan.ranges.items()):
                for record in reader.read(*place, first, after):
                    if (record.partition, record.offset) in self._plan.records:
                        yield DeadLetter(record)
        finally:
            reader.close()

    def _rows(self, letters: list[DeadLetter]) -> Iterator[Row]:
        for letter in letters:
            yield letter.again(self._now)
            for position in self._plan.records[letter.position]:
                yield self._plan.marks.row(position, letter, self._now)

    def _commit(self, rows: list[Row]) -> None:
        self._producer.begin()
        try:
            self._producer.produce(rows, _refuse)
            self._producer.commit()
        except BaseException:
            with contextlib.suppress(BrokerError):  # the next redrive aborts it, if this does not
                self._producer.abort()
            raise


def _batches(letters: Iterator[DeadLetter]) -> Iterator[list[DeadLetter]]:
    some: list[DeadLetter] = []
    size = 0
    for letter in letters:
        some.append(letter)
        size += len(letter.record.key or b"") + len(letter.record.value or b"")
        if len(some) >= MOST_RECORDS or size >= MOST_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _refuse(row: Row, error: ProductionError) -> None:
    """Explain which letter could not be written, and what to do."""
    letter = (dict(row[5]).get(f"{REDRIVE_PREFIX}letter") or b"?").decode()
    raise ProductionError(
        f"the record of letter {letter} was refused: {error}\n"
        f"  remedy:   let {row[0]} take it, or leave the letter out by what is chosen; what was committed is not written again"
    ) from error
