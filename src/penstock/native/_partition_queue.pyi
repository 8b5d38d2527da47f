"""The loops over rows in C. ``log.native`` says what they do."""

from typing import Any

from confluent_kafka import Consumer, Producer

#: bits that tell which rows are there (None: all), int32 offsets, bytes, the first row
Column = tuple[Any, Any, Any, int]
Read = tuple[Any, Any, Any]

def link_to(path: str, /) -> None: ...
def produce(
    client: Producer,
    topic: str,
    rows: int,
    first: int,
    partitions: Any,
    keys: Column,
    values: Column,
    timestamps: Any,
    spread: int,
    /,
) -> tuple[int, int, int]: ...
def produce_row(
    client: Producer,
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    timestamp: int,
    headers: tuple[tuple[bytes, bytes | None], ...],
    /,
) -> int: ...
def failed(client: Producer, /) -> tuple[int, int, str, int]: ...
def open_tap(client: Consumer, topic: str, partition: int, /) -> object: ...
def take(
    tap: object, end: int, most: int, timeout_ms: int, /
) -> tuple[
    int,
    list[tuple[int, str]] | None,
    tuple[int, bytes, Read, Read, bytes, list[tuple[tuple[str, bytes | None], ...]] | None] | None,
]: ...
def shards(rows: int, keys: Column, shards: int, home: int, /) -> bytes: ...
