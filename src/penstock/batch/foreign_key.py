"""Subscriptions, responses and combined keys (`serde.foreign_key`) by column: the same bytes, thousands at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.batch.fallback import Fallback
from penstock.serde.foreign_key import Instruction

_HASH_SIZE = 16
_NO_HASH = 0x80
#: of a subscription of version 1: head and instruction before the hash, the partition at the end
_BEFORE, _BEHIND = 2, 4
_VERSION = 1
_EMPTY = pa.scalar(b"", pa.binary())
_NO_PARTITION = pa.scalar(bytes(_BEHIND), pa.binary())
_NOTHING = pa.scalar(None, pa.binary())
#: behind any value; without it Arrow miscounts what empty slices need
_END = (1 << 31) - 1


class Subscriptions(NamedTuple):
    """Subscriptions of version 1: the hashes (null: none), the instructions as numbers, the bytes of the primary keys."""

    hashes: pa.Array
    instructions: Any
    primary_keys: pa.Array


class Responses(NamedTuple):
    """Responses: the hashes (null: none), and the bytes of the right values (null: none)."""

    hashes: pa.Array
    values: pa.Array


def write_subscriptions(subscriptions: Subscriptions) -> pa.Array:
    """Return subscriptions to partition 0 as bytes.

    >>> from penstock.serde.foreign_key import SubscriptionWrapper, SubscriptionWrapperSerde, Instruction
    >>> from penstock.serde import Serdes
    >>> hashes, keys = pa.array([bytes(16), None]), pa.array([b"a", b"b"])
    >>> packed = write_subscriptions(Subscriptions(hashes, np.array([3, 1]), keys))
    >>> SubscriptionWrapperSerde(Serdes.string).deserialize(packed[1].as_py())
    SubscriptionWrapper(hash=None, instruction=<Instruction.DELETE_KEY_AND_PROPAGATE: 1>, primary_key='b', version=1, primary_partition=0)
    >>> read_subscriptions(packed).hashes.equals(hashes), read_subscriptions(packed).primary_keys.to_pylist()
    (True, [b'a', b'b'])
    """
    hashes, instructions, primary_keys = subscriptions
    if primary_keys.null_count:
        raise Fallback("null_key")
    heads = _heads(hashes, _VERSION, instructions.astype(np.uint8)[:, np.newaxis])
    return pc.binary_join_element_wise(heads, primary_keys, _NO_PARTITION, _EMPTY)


def read_subscriptions(data: pa.Array) -> Subscriptions:
    """Return what ``write_subscriptions`` wrote; anything else is not for columns."""
    if data.null_count or pc.min(pc.binary_length(data)).as_py() < _BEFORE + _BEHIND:
        raise Fallback("foreign_format")
    first = _bytes_at(data, 0)
    hashed = _has_hash(data, first, _VERSION, _BEFORE + _BEHIND)
    partitions = pc.binary_slice(data, -_BEHIND, _END)
    if not pc.all(pc.equal(partitions, _NO_PARTITION)).as_py():
        raise Fallback("foreign_format")
    instructions = _bytes_at(data, 1)
    if (instructions >= len(Instruction)).any():
        raise Fallback("foreign_format")
    keys = _behind_hash(hashed, data, _BEFORE, -_BEHIND)
    return Subscriptions(_hashes(hashed, data, _BEFORE), instructions, keys)


def write_responses(responses: Responses) -> pa.Array:
    """Return responses as bytes.

    >>> packed = write_responses(Responses(pa.array([bytes(16), None]), pa.array([None, b"7"])))
    >>> packed.to_pylist() == [bytes(17), bytes([128]) + b"7"], read_responses(packed).values.to_pylist()
    (True, [None, b'7'])
    """
    hashes, values = responses
    heads = _heads(hashes, 0, np.empty((len(hashes), 0), dtype=np.uint8))
    return pc.binary_join_element_wise(heads, values.fill_null(b"") if values.null_count else values, _EMPTY)


def read_responses(data: pa.Array) -> Responses:
    """Return what ``write_responses`` wrote; anything else is not for columns."""
    if data.null_count or pc.min(pc.binary_length(data)).as_py() < 1:
        raise Fallback("foreign_format")
    hashed = _has_hash(data, _bytes_at(data, 0), 0, 1)
    values = _behind_hash(hashed, data, 1, _END)
    empty = pc.equal(pc.binary_length(values), 0)
    if pc.any(empty).as_py():
        values = pc.if_else(empty, _NOTHING, values)
    return Responses(_hashes(hashed, data, 1), values)


def write_combined(foreign_keys: pa.Array, primary_keys: pa.Array) -> pa.Array:
    """Return combined keys as bytes.

    >>> write_combined(pa.array([b"fk"]), pa.array([b"pk"])).to_pylist()
    [b'\\x00\\x00\\x00\\x02fkpk']
    """
    lengths = pc.binary_length(foreign_keys).to_numpy(zero_copy_only=False).astype(">i4")
    data = pa.Array.from_buffers(pa.binary(4), len(lengths), [None, pa.py_buffer(lengths.tobytes())])
    return pc.binary_join_element_wise(data.cast(pa.binary()), foreign_keys, primary_keys, _EMPTY)


def _heads(hashes: pa.Array, version: int, then: Any) -> pa.Array:
    """Return the version, so many bytes more, and the hash where there is one."""
    before = 1 + then.shape[1]
    known = hashes.is_valid().to_numpy(zero_copy_only=False)
    heads = np.empty((len(hashes), before + _HASH_SIZE), dtype=np.uint8)
    heads[:, 0] = np.where(known, version, version | _NO_HASH)
    heads[:, 1:before] = then
    given = hashes.drop_null() if hashes.null_count else hashes
    fixed = given.cast(pa.binary(_HASH_SIZE))
    if len(fixed):
        held = np.frombuffer(fixed.buffers()[1], dtype=np.uint8).reshape(-1, _HASH_SIZE)
        heads[known, before:] = held[fixed.offset : fixed.offset + len(fixed)]
    sizes = np.where(known, before + _HASH_SIZE, before)
    data = heads if known.all() else heads[np.arange(before + _HASH_SIZE) < sizes[:, np.newaxis]]
    edges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(hashes), [None, pa.py_buffer(edges.tobytes()), pa.py_buffer(data.tobytes())]
    )


def _bytes_at(data: pa.Array, at: int) -> Any:
    """Return one byte of each row, as a number."""
    column = pc.binary_slice(data, at, at + 1).cast(pa.binary(1))
    return np.frombuffer(column.buffers()[1], dtype=np.uint8)[column.offset : column.offset + len(column)]


def _has_hash(data: pa.Array, first: Any, version: int, least: int) -> Any:
    """Return which rows have a hash; all must be of the version, and have so many bytes besides it."""
    if ((first & ~np.uint8(_NO_HASH)) != version).any():
        raise Fallback("foreign_format")
    hashed = (first & _NO_HASH) == 0
    lengths = pc.binary_length(data).to_numpy()
    if (lengths < np.where(hashed, least + _HASH_SIZE, least)).any():
        raise Fallback("foreign_format")
    return hashed


def _behind_hash(hashed: Any, data: pa.Array, start: int, stop: int) -> pa.Array:
    """Return what stands from a place on, or behind the hash that stands there, until another."""
    if hashed.all():
        return pc.binary_slice(data, start + _HASH_SIZE, stop)
    with_hash = pc.binary_slice(data.filter(pa.array(hashed)), start + _HASH_SIZE, stop)
    others = pc.binary_slice(data.filter(pa.array(~hashed)), start, stop)
    back = np.empty(len(hashed), dtype=np.int64)
    back[hashed], back[~hashed] = np.arange(len(with_hash)), len(with_hash) + np.arange(len(others))
    return pa.concat_arrays([with_hash, others]).take(pa.array(back))


def _hashes(hashed: Any, data: pa.Array, start: int) -> pa.Array:
    """Return the hashes that stand at a place."""
    if hashed.all():
        return pc.binary_slice(data, start, start + _HASH_SIZE)
    known = pc.binary_slice(data.filter(pa.array(hashed)), start, start + _HASH_SIZE)
    return known.take(pa.array(np.cumsum(hashed) - 1, mask=~hashed))
