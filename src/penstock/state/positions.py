"""Positions: how a segmented store names the rows of one key, and the bytes of each name (grammar: ``keys``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.state.keys import (
    MAX_SEQUENCE,
    MAX_TIME,
    int32,
    int64,
    pack_session_suffix,
    pack_time,
    pack_window_suffix,
    start_sequence,
    two_int64,
)


class Positions(NamedTuple):
    """How a segmented store names the rows of one key: a *position* that sorts as the bytes behind the key do.

    ``time`` is the time that decides on segment and expiry; ``first(t)`` and ``last(t)`` bound the positions of time t.
    """

    suffix: Callable[[Any], bytes]
    parse: Callable[[bytes], tuple[bytes, Any]]
    by_time: Callable[[bytes, Any], bytes]
    parse_by_time: Callable[[bytes], tuple[bytes, Any]]
    time: Callable[[Any], int]
    first: Callable[[int], Any]
    last: Callable[[int], Any]
    suffix_size: int


def _window_suffix(start: int) -> bytes:
    return pack_window_suffix(start, 0)


def _parse_window(row: bytes) -> tuple[bytes, int]:
    return row[:-12], int64.unpack_from(row, len(row) - 12)[0]


def _window_by_time(key: bytes, start: int) -> bytes:
    return pack_time(start) + key + b"\0\0\0\0"


def _parse_window_by_time(row: bytes) -> tuple[bytes, int]:
    return row[8:-4], int64.unpack_from(row)[0]


def _same(time: int) -> int:
    return time


def _pair_time(position: tuple[int, int]) -> int:
    return position[0]


def _pair_first(time: int) -> tuple[int, int]:
    return time, 0


def _duplicate_suffix(position: tuple[int, int]) -> bytes:
    return pack_window_suffix(*position)


def _parse_duplicate(row: bytes) -> tuple[bytes, tuple[int, int]]:
    return row[:-12], start_sequence.unpack_from(row, len(row) - 12)


def _duplicate_by_time(key: bytes, position: tuple[int, int]) -> bytes:
    return pack_time(position[0]) + key + int32.pack(position[1])


def _parse_duplicate_by_time(row: bytes) -> tuple[bytes, tuple[int, int]]:
    return row[8:-4], (int64.unpack_from(row)[0], int32.unpack_from(row, len(row) - 4)[0])


def _duplicate_last(time: int) -> tuple[int, int]:
    return time, MAX_SEQUENCE


def _session_suffix(position: tuple[int, int]) -> bytes:
    return pack_session_suffix(*position)


def _parse_session(row: bytes) -> tuple[bytes, tuple[int, int]]:
    return row[:-16], two_int64.unpack_from(row, len(row) - 16)


def _session_by_time(key: bytes, position: tuple[int, int]) -> bytes:
    return pack_session_suffix(*position) + key


def _parse_session_by_time(row: bytes) -> tuple[bytes, tuple[int, int]]:
    return row[16:], two_int64.unpack_from(row)


def _session_last(time: int) -> tuple[int, int]:
    return time, MAX_TIME


#: position: start
WINDOW = Positions(_window_suffix, _parse_window, _window_by_time, _parse_window_by_time, _same, _same, _same, 12)
#: position: (start, sequence)
DUPLICATES = Positions(
    _duplicate_suffix,
    _parse_duplicate,
    _duplicate_by_time,
    _parse_duplicate_by_time,
    _pair_time,
    _pair_first,
    _duplicate_last,
    12,
)
#: position: (end, start)
SESSION = Positions(
    _session_suffix,
    _parse_session,
    _session_by_time,
    _parse_session_by_time,
    _pair_time,
    _pair_first,
    _session_last,
    16,
)
