"""Call something that may never return, and wait for it only so long.

Needed for one call of the client: sending offsets to a transaction can block for ever when the group's coordinator cannot be
found for a moment (librdkafka issues 5456 and 5511, open at its version 2.16), whatever timeout it is given.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any


def bounded(call: Callable[[], Any], seconds: float) -> None:
    """Run a call in a thread of its own; raise what it raises, or ``TimeoutError`` if it takes longer than so many seconds.

    After a timeout the thread is left behind, and whatever it holds must not be used any more.

    >>> bounded(lambda: None, 1)
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="penstock-bounded", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"no answer within {seconds:g} s")
    if raised:
        raise raised[0]


def keep_for_ever(thing: Any) -> None:
    """Never free an object, not even at the end of the program: a thread that does not return is inside it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
