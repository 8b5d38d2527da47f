"""What the stores of users and of tables share: a serde of the keys and one of the values, and what is said when these refuse."""

from __future__ import annotations

from typing import Any, NoReturn

from penstock.errors import SerializationError, StoreError
from penstock.serde import Serde
from penstock.state.base import Store, StoreContext
from penstock.state.spec import StoreSpec


class TypedStore(Store):
    """A store of one shard with its serdes."""

    def __init__(self, spec: StoreSpec, context: StoreContext, key: Serde[Any], value: Serde[Any]) -> None:
        self.spec = spec
        self._context = context
        self._key = key
        self._value = value

    @property
    def serdes(self) -> tuple[Serde[Any], Serde[Any]]:
        """The serdes of keys and values."""
        return self._key, self._value

    def _raw_key(self, key: Any) -> bytes:
        if key is None:
            self._refuse_key(key)
        try:
            return self._key.serialize(key)
        except Exception as error:
            self._refuse_key(key, error)

    def _raw_value(self, key: Any, value: Any) -> bytes:
        try:
            return self._value.serialize(value)
        except Exception as error:
            self._refuse_value(key, value, error)

    def _refuse_key(self, key: Any, error: Exception | None = None) -> NoReturn:
        if key is None:
            raise StoreError(f"store {self.name!r}: the key must not be None") from error
        raise self._refusal(f"the key {key!r}", self._key, error) from error

    def _refuse_value(self, key: Any, value: Any, error: Exception) -> NoReturn:
        raise self._refusal(f"the value {value!r} of key {key!r}", self._value, error) from error

    def _refusal(self, what: str, serde: Serde[Any], error: Exception | None) -> SerializationError:
        message = f"store {self.name!r}: {serde!r} refused {what}: {error}"
        return SerializationError(message, origin=self._context.origin)
