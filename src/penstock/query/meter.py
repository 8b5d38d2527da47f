"""How many queries of each store there were, how they ended, and how long they took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from penstock.clock import stopwatch_us
from penstock.distribution import SECONDS, Distribution
from penstock.errors import QueryError, UnknownStore
from penstock.query.queries import Query
from penstock.query.result import QueryResult

#: upper bounds, in seconds: look-ups take microseconds
BOUNDS = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, *SECONDS)


class QueryMeter:
    """Counts queries. Several threads may count at once: one of two at the same moment may be lost, never more."""

    def __init__(self) -> None:
        #: (store, query, outcome) → how many
        self.counts: Counter[tuple[str, str, str]] = Counter()
        #: (store, query) → seconds
        self.seconds: defaultdict[tuple[str, str], Distribution] = defaultdict(lambda: Distribution(BOUNDS))

    def measured(self, store: str, query: Query, ask: Callable[[], QueryResult]) -> QueryResult:
        """Answer a query, and count it. What a store has not got, or is not asked like that, is counted by its error."""
        began, name = stopwatch_us(), type(query).__name__
        try:
            result = ask()
        except QueryError as error:
            known = "" if isinstance(error, UnknownStore) else store  # whatever was asked for would be a label
            self.counts[known, name, type(error).__name__] += 1
            raise
        self.answered(store, query, began)
        return result

    def answered(self, store: str, query: Query, since_us: int) -> None:
        """Count a query that was answered, and began then."""
        name = type(query).__name__
        self.counts[store, name, "answered"] += 1
        self.seconds[store, name].add((stopwatch_us() - since_us) / 1e6)
