"""Record batches written in C. ``kafka_wire.protocol.batches`` says what for."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import Buffer

from penstock.native.columns import BytesColumn

#: pairs of a name and bytes or None
Headers = tuple[tuple[str, bytes | None], ...]

class Rows:
    def __new__(
        cls,
        rows: int,
        partitions: Any,
        keys: BytesColumn,
        values: BytesColumn,
        timestamps: Any,
        headers: Sequence[Headers] | None,
        spread: int,
        turn: int,
        /,
    ) -> Rows: ...
    def runs(self) -> list[tuple[int, int, int]]: ...
    def row(self, at: int, /) -> int: ...

class Batch(Buffer):
    @property
    def count(self) -> int: ...
    def __len__(self) -> int: ...
    def add(self, rows: Rows, first: int, last: int, limit: int, largest: int, /) -> int: ...
    def replace(self, records: Buffer, /) -> None: ...
    def seal(self, identity: int, epoch: int, sequence: int, transactional: bool, codec: int, /) -> None: ...
    def clear(self) -> None: ...

def crc32c(data: Buffer, by_table: bool, /) -> int: ...
