"""What a query gives: a value or rows, and the barrier that they are of."""

from __future__ import annotations

from typing import Any

from penstock.errors import QueryError
from penstock.query.barriers import Barrier, Position
from penstock.state.verbs import Rows

_NONE: Any = object()


class QueryResult:
    """The answer to a query, at one barrier: ``value``, or rows, which are iterated once.

    Rows are read while they are iterated, and stay at their barrier. Iterate them to the end, close the result, or
    use it in a ``with`` block, so that what they hold is given back at once."""

    def __init__(self, barrier: Barrier, *, value: Any = None, rows: Rows | None = None) -> None:
        self._barrier = barrier
        self._value = value
        self._rows = rows
        self._first = _NONE

    @property
    def epoch(self) -> int:
        """The epoch of the barrier that the answer is of."""
        return self._barrier.epoch

    @property
    def position(self) -> Position:
        """The last offset of each source partition that is part of the barrier."""
        return self._barrier.position

    @property
    def has_rows(self) -> bool:
        """Whether the query gives rows, and not one value."""
        return self._rows is not None

    @property
    def value(self) -> Any:
        """The value, None where there is none; of a query for one value."""
        if self._rows is not None:
            raise QueryError("this query gives rows: iterate the result, as in `for key, value in result`")
        return self._value

    @property
    def found(self) -> bool:
        """Whether there is a value, or a row."""
        if self._rows is None:
            return self._value is not None
        if self._first is _NONE:
            self._first = next(self._rows, None)
        return self._first is not None

    def __iter__(self) -> QueryResult:
        return self

    def __next__(self) -> Any:
        if self._rows is None:
            raise QueryError("this query gives one value: result.value")
        first, self._first = self._first, _NONE
        if first is _NONE or first is None:
            return next(self._rows)
        return first

    def close(self) -> None:
        """Give back what the rows hold."""
        if self._rows is not None:
            self._rows.close()

    def __enter__(self) -> QueryResult:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        what = "rows" if self.has_rows else f"value={self._value!r}"
        return f"QueryResult({what}, epoch={self.epoch})"
