"""Records by key in C. ``serde.groups`` says what it does, ``state.shards`` what shards are."""

from typing import Any

from penstock.native.columns import BytesColumn

def group(
    rows: int, offsets: Any, data: Any, first: int, parts: Any, /
) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes]: ...
def shards(rows: int, keys: BytesColumn, shards: int, home: int, /) -> bytes: ...
