"""What the two sides of a foreign-key join send each other, byte-equal to Kafka Streams 4.3.

The left table sends a *subscription* to the partition of the foreign key, the right one answers with a *response*.

    subscription  :=  head instruction [hash] primary-key [partition]
    response      :=  head [hash] [foreign-value]
    combined key  :=  length foreign-key primary-key          key of the subscription store

    head         1 byte: the version; plus 80 where the hash is absent
    instruction  1 byte, see Instruction
    hash         16 bytes: murmur3_128 of the left row's value, by which a stale response is known
    partition    int32: where the left row lives; version 1 only
    length       int32: bytes of the foreign key

Numbers are big endian. Kafka 4.3 writes subscriptions of version 1 (0: before 3.4) and responses of version 0.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.errors import DeserializationError, SerializationError
from penstock.serde.base import Serde

F = TypeVar("F")
K = TypeVar("K")
V = TypeVar("V")

_HASH_SIZE = 16
_NO_HASH = 0x80
_INT32 = Struct(">i")


class Instruction(IntEnum):
    """What the right side shall do with a subscription.

    >>> Instruction(1).name
    'DELETE_KEY_AND_PROPAGATE'
    """

    DELETE_KEY_NO_PROPAGATE = 0
    DELETE_KEY_AND_PROPAGATE = 1
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3


_INSTRUCTIONS = tuple(Instruction)


class SubscriptionWrapper(NamedTuple, Generic[K]):
    """A left row's interest in a foreign key. Version 1 needs `primary_partition`; version 0 does not carry it.

    >>> SubscriptionWrapper(None, Instruction(2), "pk", primary_partition=3).version
    1
    """

    hash: bytes | None
    instruction: Instruction
    primary_key: K
    version: int = 1
    primary_partition: int | None = None


class SubscriptionResponseWrapper(NamedTuple, Generic[V]):
    """The right side's answer. `primary_partition` routes it and is not written.

    >>> SubscriptionResponseWrapper(None, "value").version
    0
    """

    original_value_hash: bytes | None
    foreign_value: V | None
    version: int = 0
    primary_partition: int | None = None


class CombinedKey(NamedTuple, Generic[F, K]):
    """Foreign key, then primary key: all subscriptions to one foreign key are neighbours.

    >>> CombinedKey("fk", "pk").primary_key
    'pk'
    """

    foreign_key: F
    primary_key: K


class SubscriptionWrapperSerde(Serde[SubscriptionWrapper[K]]):
    """The serde of subscriptions, given that of the left table's key.

    >>> from penstock.serde.primitives import string
    >>> serde = SubscriptionWrapperSerde(string)
    >>> serde.serialize(SubscriptionWrapper(None, Instruction(2), "pk", 1, 3))
    b'\\x81\\x02pk\\x00\\x00\\x00\\x03'
    >>> serde.deserialize(b'\\x80\\x01pk').primary_key
    'pk'
    """

    __slots__ = ()

    def __init__(self, primary_key: Serde[K]) -> None:
        super().__init__(
            _subscription_writer(primary_key.serialize),
            _subscription_reader(primary_key.deserialize),
            f"subscription({primary_key!r})",
            _recipe=(SubscriptionWrapperSerde, (primary_key,)),
        )


class SubscriptionResponseWrapperSerde(Serde[SubscriptionResponseWrapper[V]]):
    """The serde of responses, given that of the right table's value.

    As in Kafka, a value whose serde writes no bytes at all (the empty string) is read as no value.

    >>> from penstock.serde.primitives import string
    >>> serde = SubscriptionResponseWrapperSerde(string)
    >>> serde.serialize(SubscriptionResponseWrapper(None, "v"))
    b'\\x80v'
    >>> serde.deserialize(b'\\x80').foreign_value is None
    True
    """

    __slots__ = ()

    def __init__(self, foreign_value: Serde[V]) -> None:
        super().__init__(
            _response_writer(foreign_value.serialize),
            _response_reader(foreign_value.deserialize),
            f"subscription_response({foreign_value!r})",
            _recipe=(SubscriptionResponseWrapperSerde, (foreign_value,)),
        )


class CombinedKeySerde(Serde[CombinedKey[F, K]]):
    """The serde of combined keys; `prefix(foreign_key)` begins every key of that foreign key and no other.

    >>> from penstock.serde.primitives import string
    >>> serde = CombinedKeySerde(string, string)
    >>> serde.serialize(CombinedKey("fk", "pk"))
    b'\\x00\\x00\\x00\\x02fkpk'
    >>> serde.prefix("fk")
    b'\\x00\\x00\\x00\\x02fk'
    """

    __slots__ = ("prefix",)

    prefix: Callable[[F], bytes]

    def __init__(self, foreign_key: Serde[F], primary_key: Serde[K]) -> None:
        prefix = _prefix_writer(foreign_key.serialize)
        super().__init__(
            _combined_writer(prefix, primary_key.serialize),
            _combined_reader(foreign_key.deserialize, primary_key.deserialize),
            f"combined_key({foreign_key!r}, {primary_key!r})",
            _recipe=(CombinedKeySerde, (foreign_key, primary_key)),
        )
        object.__setattr__(self, "prefix", prefix)

    @property
    def parts(self) -> tuple[Serde[F], Serde[K]]:
        """The serdes of foreign keys and of primary keys."""
        foreign_key, primary_key = self.__reduce__()[1]
        return foreign_key, primary_key


def _head(version: int, newest: int, hash_: bytes | None, then: bytes = b"") -> bytes:
    if not 0 <= version <= newest:
        raise SerializationError(f"version {version} is unknown: it is 0 to {newest}")
    if hash_ is None:
        return bytes((version | _NO_HASH,)) + then
    if len(hash_) != _HASH_SIZE:
        raise SerializationError(f"a hash has {_HASH_SIZE} bytes, not {len(hash_)}")
    return bytes((version,)) + then + hash_


def _read_head(data: bytes, newest: int, at: int) -> tuple[int, bytes | None, int]:
    """Read the version, the hash that may stand at `at`, and where it ends."""
    version = data[0] & ~_NO_HASH
    if version > newest:
        raise DeserializationError(f"version {version} is unknown: it is 0 to {newest}")
    if data[0] & _NO_HASH:
        return version, None, at
    end = at + _HASH_SIZE
    if len(data) < end:
        raise DeserializationError(f"a hash has {_HASH_SIZE} bytes, and there are {len(data) - at}")
    return version, data[at:end], end


def _subscription_writer(serialize: Callable[[K], bytes]) -> Callable[[SubscriptionWrapper[K]], bytes]:
    def write(wrapper: SubscriptionWrapper[K]) -> bytes:
        hash_, instruction, primary_key, version, partition = wrapper
        if primary_key is None:
            raise SerializationError("a subscription needs a primary key")
        data = _head(version, 1, hash_, bytes((instruction,))) + serialize(primary_key)
        return data + _INT32.pack(partition) if version else data

    return write


def _subscription_reader(deserialize: Callable[[bytes], K]) -> Callable[[bytes], SubscriptionWrapper[K]]:
    def read(data: bytes) -> SubscriptionWrapper[K]:
        version, hash_, at = _read_head(data, 1, 2)
        code = data[1]
        if code >= len(_INSTRUCTIONS):
            raise DeserializationError(f"instruction {code} is unknown: it is 0 to {len(_INSTRUCTIONS) - 1}")
        instruction = _INSTRUCTIONS[code]
        if version == 0:
            return SubscriptionWrapper(hash_, instruction, deserialize(data[at:]), 0, None)
        end = len(data) - 4
        if end < at:
            raise DeserializationError(f"a subscription of {len(data)} bytes has no room for its partition")
        (partition,) = _INT32.unpack_from(data, end)
        return SubscriptionWrapper(hash_, instruction, deserialize(data[at:end]), version, partition)

    return read


def _response_writer(serialize: Callable[[V], bytes]) -> Callable[[SubscriptionResponseWrapper[V]], bytes]:
    def write(wrapper: SubscriptionResponseWrapper[V]) -> bytes:
        hash_, value, version, _ = wrapper
        head = _head(version, 0, hash_)
        return head if value is None else head + serialize(value)

    return write


def _response_reader(deserialize: Callable[[bytes], V]) -> Callable[[bytes], SubscriptionResponseWrapper[V]]:
    def read(data: bytes) -> SubscriptionResponseWrapper[V]:
        version, hash_, at = _read_head(data, 0, 1)
        value = deserialize(data[at:]) if len(data) > at else None
        return SubscriptionResponseWrapper(hash_, value, version, None)

    return read


def _prefix_writer(serialize: Callable[[F], bytes]) -> Callable[[F], bytes]:
    def prefix(foreign_key: F) -> bytes:
        if foreign_key is None:
            raise SerializationError("a combined key needs a foreign key")
        data = serialize(foreign_key)
        return _INT32.pack(len(data)) + data

    return prefix


def _combined_writer(prefix: Callable[[F], bytes], serialize: Callable[[K], bytes]) -> Callable[[Any], bytes]:
    def write(key: CombinedKey[F, K]) -> bytes:
        foreign_key, primary_key = key
        if primary_key is None:
            raise SerializationError("a combined key needs a primary key")
        return prefix(foreign_key) + serialize(primary_key)

    return write


def _combined_reader(foreign: Callable[[bytes], F], primary: Callable[[bytes], K]) -> Callable[[bytes], Any]:
    def read(data: bytes) -> CombinedKey[F, K]:
        (length,) = _INT32.unpack_from(data)
        end = 4 + length
        if not 4 <= end <= len(data):
            raise DeserializationError(f"a foreign key of {length} bytes does not fit {len(data)} bytes")
        return CombinedKey(foreign(data[4:end]), primary(data[end:]))

    return read
