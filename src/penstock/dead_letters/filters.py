"""Which dead letters are meant."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.dead_letters.letter import DeadLetter


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """What letters must be like; what is None says nothing. Without any condition every letter matches.

    ``exception`` may be the whole name or its last part; ``since`` goes by the time of the record.
    """

    node: str | None = None
    exception: str | None = None
    topic: str | None = None
    since: int | None = None
    positions: frozenset[tuple[int, int]] | None = None

    def matches(self, letter: DeadLetter) -> bool:
        """Whether a letter is meant."""
        return (
            (self.positions is None or letter.position in self.positions)
            and (self.node is None or letter.node == self.node)
            and (self.exception is None or _is_named(letter.exception, self.exception))
            and (self.topic is None or (letter.source is not None and letter.source[0] == self.topic))
            and (self.since is None or letter.timestamp >= self.since)
        )

    @property
    def says_nothing(self) -> bool:
        """Whether every letter matches."""
        return self == LetterFilter()


def _is_named(exception: str | None, wanted: str) -> bool:
    """Whether an exception has a name, whole or its last part.

    >>> _is_named("shop.errors.BadPrice", "BadPrice"), _is_named("BadPrice", "Price"), _is_named(None, "Price")
    (True, False, False)
    """
    return exception is not None and (exception == wanted or exception.endswith(f".{wanted}"))
