"""The channel between a resident task, which has called, and the driver: one inline epoch after the other.

A message is a number of cells, each as many bytes as was said before::

    question   the request, then of each part of the epoch its lane, in digits, and its rows
    answer     chunks
    notice     a request alone: there is a barrier. No answer is waited for

There is one question at a time; the driver hangs up when it needs the task no more.
"""

from __future__ import annotations

import contextlib
import gc
import socket
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TypeAlias

#: how long a task waits for the next epoch: it holds a place that another task could have
WAIT_SECONDS = 1.0

_number = Struct("!q")

#: a lane and its rows; no lane: all steps of all lanes
Part: TypeAlias = tuple[int | None, bytes]


def ask(line: socket.socket, request: bytes, parts: Sequence[Part]) -> None:
    """Send a question. Whether somebody is there to take it, the answer tells."""
    cells = [request]
    for lane, rows in parts:
        cells += (b"" if lane is None else b"%d" % lane, rows)
    with contextlib.suppress(ConnectionError):
        send(line, cells)


def send(line: socket.socket, cells: Sequence[bytes]) -> None:
    """Send a message.

    >>> here, there = socket.socketpair()
    >>> send(here, [b"one", b""])
    >>> receive(there)
    [b'one', b'']
    >>> here.close()
    >>> receive(there) is None
    True
    """
    line.sendall(_number.pack(len(cells)) + b"".join(_number.pack(len(cell)) for cell in cells))
    for cell in cells:
        line.sendall(cell)


def receive(line: socket.socket) -> list[bytes] | None:
    """Return the cells of the next message; None if the other end has hung up, be it in the middle of one."""
    try:
        (count,) = _number.unpack(_exactly(line, _number.size))
        sizes = _exactly(line, count * _number.size)
        return [bytes(_exactly(line, size)) for (size,) in _number.iter_unpack(sizes)]
    except (EOFError, ConnectionError):
        return None


def serve(
    address: str, answer: Callable[[bytes, list[Part]], Sequence[bytes]], notice: Callable[[bytes], None]
) -> None:
    """Call the driver, and run its epochs until it hangs up, or has none for a while."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):  # it needs none any more
            return
        while _comes(line):
            question = receive(line)
            if question is None:
                return
            request, *cells = question
            if not cells:
                notice(request)
                continue
            lanes = [int(lane) if lane else None for lane in cells[::2]]
            send(line, answer(request, list(zip(lanes, cells[1::2], strict=True))))
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
