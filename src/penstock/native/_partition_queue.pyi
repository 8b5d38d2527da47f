"""What a consumer has read of a partition, in C. ``log.partition_queue`` says what for."""

from typing import Any

from confluent_kafka import Consumer, Producer

Read = tuple[Any, Any, Any]

def link_to(path: str, /) -> None: ...
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
def open_queue(client: Consumer, topic: str, partition: int, /) -> object: ...
def take(
    queue: object, end: int, most: int, timeout_ms: int, /
) -> tuple[
    int,
    list[tuple[int, str]] | None,
    tuple[int, bytes, Read, Read, bytes, list[tuple[tuple[str, bytes | None], ...]] | None] | None,
]: ...
