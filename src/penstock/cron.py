"""Cron: the times that a cron expression names, in UTC, to the minute.

::

    expression = minute hour day month weekday | @hourly | @daily | @weekly | @monthly | @yearly
    field      = part ("," part)*
    part       = ("*" | value | value "-" value) ["/" step]        a value with a step: from it to the end
    value      = number | jan … dec | sun … sat                    weekday 0 and 7 are Sunday

Day and weekday are as cron has them: where both are restricted a date needs to match one of them, else both.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import date

from penstock.errors import TopologyError

MINUTE = 60_000
_MINUTES_OF_A_DAY = 24 * 60
_EPOCH = date(1970, 1, 1).toordinal()
#: days: a 29th of February may be eight years away
_FARTHEST = 9 * 366
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
#: of each field: its name, least and greatest number, words for numbers
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("weekday", 0, 7, _WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """The times of a cron expression, in milliseconds. Two are equal if their expressions are.

    >>> every_quarter = Cron("*/15 9-17 * * mon-fri")
    >>> every_quarter.after(0) // MINUTE, every_quarter.latest(every_quarter.after(0) + 5)  # 1970 began on a Thursday
    (540, 32400000)
    """

    text: str

    def __post_init__(self) -> None:
        """Refuse an expression that is none, or that names no time."""
        if not any(_dates(self.text, day) for day in range(_FARTHEST)):
            raise TopologyError(f"the cron expression {self.text!r} names no date: no month has such a day")

    def __str__(self) -> str:
        return f"cron {self.text}"

    def after(self, time: int) -> int:
        """Return the first time that is later than ``time``."""
        minutes = _parsed(self.text).minutes
        day, minute = divmod(time // MINUTE + 1, _MINUTES_OF_A_DAY)
        while not _dates(self.text, day) or minute > minutes[-1]:
            day, minute = day + 1, 0
        return (day * _MINUTES_OF_A_DAY + minutes[bisect_left(minutes, minute)]) * MINUTE

    def latest(self, time: int) -> int:
        """Return the last time that is not later than ``time``."""
        minutes = _parsed(self.text).minutes
        day, minute = divmod(time // MINUTE, _MINUTES_OF_A_DAY)
        while not _dates(self.text, day) or minute < minutes[0]:
            day, minute = day - 1, _MINUTES_OF_A_DAY
        return (day * _MINUTES_OF_A_DAY + minutes[bisect_right(minutes, minute) - 1]) * MINUTE


@dataclass(frozen=True, slots=True)
class _Parsed:
    """An expression taken apart; ``either``: a date matches if its day or its weekday does."""

    minutes: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool


def _dates(text: str, day: int) -> bool:
    """Whether a day (counted from 1970) is one of the expression's."""
    parsed = _parsed(text)
    that = date.fromordinal(_EPOCH + day)
    if that.month not in parsed.months:
        return False
    matches = (that.day in parsed.days, that.isoweekday() % 7 in parsed.weekdays)
    return any(matches) if parsed.either else all(matches)


_known: dict[str, _Parsed] = {}


def _parsed(text: str) -> _Parsed:
    """Take an expression apart, once in a process."""
    if text not in _known:
        _known[text] = _parse(text)
    return _known[text]


def _parse(text: str) -> _Parsed:
    words = _SHORT.get(text.strip().lower(), text).split()
    if len(words) != len(_FIELDS):
        raise TopologyError(
            f"the cron expression {text!r} has {len(words)} fields: it needs 5, minute hour day month weekday, such as "
            f"'*/15 9-17 * * mon-fri', or one of {', '.join(_SHORT)}"
        )
    minutes, hours, days, months, weekdays = (
        _numbers(text, word, *field) for word, field in zip(words, _FIELDS, strict=True)
    )
    return _Parsed(
        tuple(sorted(hour * 60 + minute for hour in hours for minute in minutes)),
        frozenset(days),
        frozenset(months),
        frozenset(weekday % 7 for weekday in weekdays),
        either=not words[2].startswith("*") and not words[4].startswith("*"),
    )


def _numbers(text: str, word: str, name: str, least: int, greatest: int, words: tuple[str, ...]) -> set[int]:
    """Return the numbers of one field."""
    found: set[int] = set()
    for part in word.lower().split(","):
        try:
            found.update(_part(part, least, greatest, words))
        except ValueError as error:
            raise TopologyError(f"the {name} {word!r} of the cron expression {text!r} is wrong: {error}") from None
    return found


def _part(part: str, least: int, greatest: int, words: tuple[str, ...]) -> range:
    span, slash, by = part.partition("/")
    step = _number(by, ()) if slash else 1
    if step < 1:
        raise ValueError("a step is at least 1")
    if span == "*":
        return range(least, (6 if greatest == 7 else greatest) + 1, step)
    first, dash, last = span.partition("-")
    start = _number(first, words) + (least if first in words else 0)
    end = _number(last, words) + (least if last in words else 0) if dash else greatest if slash else start
    if not least <= start <= end <= greatest:
        raise ValueError(f"it must be within {least} and {greatest}, and not run backwards")
    return range(start, end + 1, step)


def _number(text: str, words: tuple[str, ...]) -> int:
    if text in words:
        return words.index(text)
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{text!r} is no number" + (f", nor one of {', '.join(words)}" if words else ""))
    return int(text)
