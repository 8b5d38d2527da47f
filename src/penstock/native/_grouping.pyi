"""Records by key in C. ``serde.groups`` says what it does."""

from typing import Any

def group(
    rows: int, offsets: Any, data: Any, first: int, parts: Any, /
) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes]: ...
