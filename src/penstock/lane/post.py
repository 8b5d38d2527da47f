"""Letters by a line: a task that waits for the next letter, at one end, and the driver that it has called, at the other.

A message is a number of parts, each as many bytes as was said before. There is one question, (orders, letter), and one answer,
parcels, at a time; the driver hangs up when it needs the task no more.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Sequence
from struct import Struct

#: how long a task waits for the next letter: it holds a place that another task could have
WAIT_SECONDS = 1.0

_number = Struct("!q")

Parts = Sequence[bytes]


def send(line: socket.socket, parts: Parts) -> None:
    """Send a message.

    >>> here, there = socket.socketpair()
    >>> send(here, [b"one", b""])
    >>> receive(there)
    [b'one', b'']
    >>> here.close()
    >>> receive(there) is None
    True
    """
    line.sendall(_number.pack(len(parts)) + b"".join(_number.pack(len(part)) for part in parts))
    for part in parts:
        line.sendall(part)


def receive(line: socket.socket) -> list[bytes] | None:
    """Return the parts of the next message; None if the other end has hung up, be it in the middle of one."""
    try:
        (count,) = _number.unpack(_exactly(line, _number.size))
        sizes = _exactly(line, count * _number.size)
        return [bytes(_exactly(line, size)) for (size,) in _number.iter_unpack(sizes)]
    except (EOFError, ConnectionError):
        return None


def attend(address: str, answer: Callable[[bytes, bytes], Parts]) -> None:
    """Call the driver, and answer its letters until it hangs up, or has none for a while."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):  # it needs none any more
            return
        while _comes(line):
            letter = receive(line)
            if letter is None:
                return
            orders, rows = letter
            send(line, answer(orders, rows))
            gc.collect()  # as after a task: nobody waits for it now


def _comes(line: socket.socket) -> bool:
    """Wait for the beginning of a message, or for the end of the line."""
    line.settimeout(WAIT_SECONDS)
    try:
        line.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return False
    line.settimeout(None)
    return True


def _exactly(line: socket.socket, size: int) -> bytearray:
    found = bytearray(size)
    rest = memoryview(found)
    while rest:
        got = line.recv_into(rest)
        if not got:
            raise EOFError
        rest = rest[got:]
    return found
