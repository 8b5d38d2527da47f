"""Key-value stores: plain, timestamped and shared. Verbs are Kafka's in snake_case, plus ``compute`` and ``merge``."""

from __future__ import annotations

from typing import Any

from penstock.record import ValueAndTimestamp
from penstock.state.rows import RowStore
from penstock.state.verbs import Rows

__all__ = ["KeyValueStore", "Rows", "SharedStore", "TimestampedKeyValueStore"]


class KeyValueStore(RowStore):
    """A value per key.

    >>> from penstock.serde import Serdes
    >>> from penstock.state.open import standalone
    >>> from penstock.state.spec import Stores
    >>> store = standalone(Stores.key_value("stock", value=Serdes.json))
    >>> store.put("pear", 3)
    >>> store.merge("pear", 4, lambda old, new: old + new), store.put_if_absent("fig", 1)
    (7, None)
    >>> list(store.all()), store.delete("pear"), store.get("pear")
    ([('fig', 1), ('pear', 7)], 7, None)
    """

    def get(self, key: Any) -> Any:
        """Return the value or None."""
        row = self.read(key)
        return None if row is None else row[0]

    def put(self, key: Any, value: Any) -> None:
        """Store the value; None deletes the row. The changelog row has the timestamp of the record being processed."""
        origin = self._context.origin
        self.write(key, value, origin.timestamp, origin.headers)

    def _shape(self, value: Any, timestamp: int) -> Any:
        return value


class TimestampedKeyValueStore(RowStore):
    """A `ValueAndTimestamp` per key: what tables are kept in.

    >>> from penstock.serde import Serdes
    >>> from penstock.state.open import standalone
    >>> from penstock.state.spec import Stores
    >>> store = standalone(Stores.key_value("prices", value=Serdes.json, timestamped=True))
    >>> store.put("pear", ValueAndTimestamp(3, 100))
    >>> store.get("pear"), store.read("pear")
    (ValueAndTimestamp(value=3, timestamp=100), (3, 100))
    """

    stamped = True

    def get(self, key: Any) -> ValueAndTimestamp | None:
        """Return value and timestamp, or None."""
        row = self.read(key)
        return None if row is None else ValueAndTimestamp(*row)

    def put(self, key: Any, value: ValueAndTimestamp | None) -> None:
        """Store value and timestamp; None (or a value of None) deletes the row."""
        origin = self._context.origin
        if value is None or value[0] is None:
            self.write(key, None, origin.timestamp, origin.headers)
        else:
            self.write(key, value[0], value[1], origin.headers)

    def _shape(self, value: Any, timestamp: int) -> Any:
        return ValueAndTimestamp(value, timestamp)


class SharedStore(KeyValueStore):
    """Global state: a `KeyValueStore` whose processors all run in one lane, so that any keys may be changed
    together."""
