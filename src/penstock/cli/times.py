"""Moments on the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from penstock.cli.kafka import BadOption

_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def moment_ms(text: str, option: str, now: int) -> int:
    """Return a moment in milliseconds: a time ago, milliseconds, or ISO 8601, which is UTC unless it says otherwise.

    >>> moment_ms("2m", "--since", 1_000_000), moment_ms("1970-01-01T00:00:05", "--since", 0), moment_ms("7", "--since", 0)
    (880000, 5000, 7)
    """
    if text.isdecimal():
        return int(text)
    if ago := re.fullmatch(r"(\d+)([smhd])", text):
        return now - int(ago[1]) * _UNITS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadOption(f"{option}: {text!r} is no time: write 2h (ago), 2026-01-31T10:00 or milliseconds") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def shown_time(time: int | None) -> str:
    """Return a time for people, in UTC; what is beyond the calendar in milliseconds.

    >>> shown_time(5_250), shown_time(None), shown_time(10**17)
    ('1970-01-01 00:00:05.250', '', '100000000000000000')
    """
    if time is None:
        return ""
    try:
        return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{time % 1000:03}"
    except (ValueError, OverflowError, OSError):
        return str(time)
