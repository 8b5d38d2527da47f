"""What a query gives: a value or rows, and the barrier that they are of."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.errors import QueryError
from penstock.query.barriers import Barrier, Position
from penstock.query.tables import SHOWN, RowTable, frame_of, html_of, table_of
from penstock.state.verbs import Rows

if TYPE_CHECKING:
    import pandas


class QueryResult:
    """The answer to a query, at one barrier: ``value``, or rows, which are iterated once.

    Rows are read while they are iterated, and stay at their barrier. Iterate them to the end, close the result, or
    use it in a ``with`` block, so that what they hold is given back at once."""

    def __init__(
        self, barrier: Barrier, *, value: Any = None, rows: Rows | None = None, first_column: str = "key"
    ) -> None:
        self._barrier = barrier
        self._value = value
        self._rows = rows
        self._first_column = first_column
        #: rows that were looked at, and are still to be iterated
        self._ahead: deque[Any] = deque()

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
        return bool(self._look_ahead(1))

    def __iter__(self) -> QueryResult:
        return self

    def __next__(self) -> Any:
        if self._rows is None:
            raise QueryError("this query gives one value: result.value")
        return self._ahead.popleft() if self._ahead else next(self._rows)

    def to_pandas(self, limit: int | None = None) -> pandas.DataFrame:
        """Return the rows that are not iterated yet (at most ``limit``) as a frame, and close the result.

        Windows, timestamps and versions have columns of their own. Needs pandas: ``pip install 'penstock-streams[notebook]'``.
        """
        if self._rows is None:
            raise QueryError("this query gives one value: result.value")
        with self:
            return frame_of(table_of(self, self._first_column, limit))

    def _repr_html_(self) -> str:
        """Show the value or the first rows in a notebook; they are still there to be iterated."""
        title = f"epoch {self.epoch}"
        if self._rows is None:
            return html_of(title, RowTable(("value",), [(self._value,)], False))
        return html_of(title, table_of(self._look_ahead(SHOWN + 1), self._first_column, SHOWN))

    def _look_ahead(self, count: int) -> list[Any]:
        assert self._rows is not None
        self._ahead.extend(islice(self._rows, count - len(self._ahead)) if count > len(self._ahead) else ())
        return list(self._ahead)

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
