"""What the workers of this machine are doing: asked by a signal, which a worker answers whatever it is at (``lane.activity``)."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from penstock.admin.processes import below
from penstock.protocol.activity import ASK, STACK_FILE, TASK_FILE

#: seconds between two looks at what a worker has written, and how many of them it has: on a busy machine it may wait for a core
LOOK_SECONDS, MOST_LOOKS = 0.02, 150
#: bytes of stacks after which the file begins anew; frames of a thread that are told
MOST_BYTES, MOST_FRAMES = 1 << 20, 40
FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')
_HOUSE = str(Path(__file__).parents[1])
#: a worker whose thread is in none but these files of the house has no task, or waits for the next epoch
_WAITING = tuple(f"{_HOUSE}/{name}" for name in ("protocol/channel.py", "lane/entry.py"))
_lock = threading.Lock()


def worker_stacks(nodes: Collection[str]) -> list[dict[str, Any]]:
    """Return what each worker below this process is at: its task, the node, the line of the user's, the stacks. One asks at a time."""
    with _lock:
        return [_described(number, task, stacks, nodes) for number, task, stacks in _asked()]


def _asked() -> Iterator[tuple[int, str, str]]:
    for number in sorted(below(os.getpid())):
        task, stacks = _file(number, TASK_FILE), _file(number, STACK_FILE)
        if task is None or stacks is None or not _takes_signal(number):
            continue
        try:
            yield number, task.read_bytes().decode(errors="replace").strip(), _ask(number, stacks)
        except OSError:  # it has ended meanwhile
            continue


def _file(number: int, name: str) -> Path | None:
    """Return a file in memory of a process by its name."""
    try:
        for path in Path(f"/proc/{number}/fd").iterdir():
            if os.readlink(path).startswith(f"/memfd:{name} "):
                return path
    except OSError:
        pass
    return None


def _takes_signal(number: int) -> bool:
    """Whether a process handles the signal: it would end one that does not."""
    try:
        caught = re.search(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{number}/status").read_text(), re.MULTILINE)
    except OSError:
        return False
    return caught is not None and bool(int(caught[1], 16) >> (ASK - 1) & 1)


def _ask(number: int, stacks: Path) -> str:
    """Ask for the stacks, and wait until all of them are written."""
    if stacks.stat().st_size > MOST_BYTES:
        os.truncate(stacks, 0)
    begin = size = stacks.stat().st_size
    os.kill(number, ASK)
    pause = threading.Event()
    for _ in range(MOST_LOOKS):
        pause.wait(LOOK_SECONDS)
        before, size = size, stacks.stat().st_size
        if size > begin and size == before:
            break
    with stacks.open("rb") as file:
        file.seek(begin)
        return file.read().decode(errors="replace")


def _described(number: int, task: str, text: str, nodes: Collection[str]) -> dict[str, Any]:
    """Explain what a worker is at. The thread that runs tasks is the last of its stacks, the main thread."""
    threads = [[match.groups() for line in part.splitlines() if (match := FRAME.match(line))] for part in parts(text)]
    main = threads[-1] if threads else []
    busy = any(file.startswith(_HOUSE) and file not in _WAITING for file, _, _ in main)
    resident = any(file == _WAITING[0] for file, _, _ in main)
    node = next((name for _, _, name in main if name in nodes), None)
    line = next((f"{name} ({file}:{at})" for file, at, name in main if _is_users(file)), None)
    return {
        "process": number,
        "resident": resident,
        "task": task if busy else None,
        "doing": _doing(node, line, main) if busy else _idle(main, resident),
        "node": node if busy else None,
        "line": line if busy else None,
        "stack": [f"{name} ({file}:{at})" for file, at, name in reversed(main[:MOST_FRAMES])],
    }


def _idle(frames: list[Any], resident: bool) -> str:
    if not frames:
        return "has not answered"
    return "waits for the next epoch" if resident else "waits for a task"


def _doing(node: str | None, line: str | None, frames: list[Any]) -> str:
    if line is not None:
        return line if node is None else f"{node}: {line}"
    file, at, name = frames[0]
    return node or f"{name} ({file}:{at})"


def parts(text: str) -> list[str]:
    """Return the stacks of each thread.

    >>> len(parts('Thread 0x01 (most recent call first):\\n  File "a", line 1 in f\\n\\nCurrent thread 0x02 (...):\\n  File "b", ...'))
    2
    """
    return [part for part in re.split(r"^(?:Current t|T)hread .*$", text, flags=re.MULTILINE) if part.strip()]


def _is_users(file: str) -> bool:
    """Whether a file is none of Penstock's, of a library or of Python itself."""
    return (
        not file.startswith((_HOUSE, "<"))
        and "/site-packages/" not in file
        and not file.startswith(os.path.dirname(os.__file__))
    )
