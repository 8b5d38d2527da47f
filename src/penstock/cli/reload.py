"""``penstock run --reload``: for development. A change of the program stops it at a barrier and starts it again.

The program runs in a process of its own, which is given every option but this one; its files are looked at three times a second.
A program that fails, or cannot even be imported, says so as ever, and the next change is waited for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from penstock.cli.exits import DONE, INTERRUPTED
from penstock.cli.run import Stops, stop_signals
from penstock.dev.watch import Watch

LOOK_SECONDS = 0.3
#: folders that hold no program of one's own
NOT_WATCHED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}


def run_again(address: str, arguments: Sequence[str]) -> int:
    """Run ``penstock`` with these arguments, again after each change below the folder of a program; return the exit code."""
    folder = folder_of(address)
    command = [sys.executable, "-c", "from penstock.cli import main; main()", *arguments]
    watch = Watch()
    try:
        with stop_signals() as stops:
            return Reloader(folder, lambda: launched(watch, command), stops).run()
    finally:
        watch.release()


def folder_of(address: str) -> Path:
    """Return the folder whose files are watched: that of a file, or the current one, from which modules are imported.

    >>> folder_of("examples/word_count.py:app").name, folder_of("word_count:app") == Path.cwd()
    ('examples', True)
    """
    place = Path(address.partition(":")[0])
    return place.resolve().parent if place.suffix == ".py" else Path.cwd()


def files_of(folder: Path) -> Iterator[Path]:
    """Yield the programs in a folder and below, and its settings; not those of environments and hidden folders."""
    for here, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if name not in NOT_WATCHED and not name.startswith(".") and not (Path(here) / name / "pyvenv.cfg").exists()
        ]
        yield from (Path(here) / name for name in names if name.endswith(".py") or name == "pyproject.toml")


def written(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return when each file was written last, and its size."""
    found = {}
    for path in files_of(folder):
        try:
            told = path.stat()
        except OSError:  # an editor replaces it at this moment
            continue
        found[path] = told.st_mtime_ns, told.st_size
    return found


class Reloader:
    """Starts a program, and again when its files change. ``stops``: whether a person has asked for the end."""

    def __init__(self, folder: Path, launch: Callable[[], subprocess.Popen[bytes]], stops: Stops) -> None:
        self._folder = folder
        self._launch = launch
        self._stops = stops
        self._pause = threading.Event()

    def run(self) -> int:
        """Run until Ctrl-C or SIGTERM; return the exit code of the program then."""
        code = DONE
        while not self._stops.count:
            before = written(self._folder)
            program = self._launch()
            self._await(lambda: program.poll() is not None or written(self._folder) != before)  # noqa: B023 - at once
            if program.poll() is None:
                self._say_changes(before)
                code = self._end(program)
                continue
            code = program.returncode
            if not self._stops.count:
                say(f"it has ended with exit code {code}; waiting for a change in {self._folder}")
                self._await(lambda: written(self._folder) != before)  # noqa: B023
                self._say_changes(before)
        return code

    def _await(self, happened: Callable[[], bool]) -> None:
        """Wait for something, or for who asks for the end."""
        while not self._stops.count and not happened():
            self._pause.wait(LOOK_SECONDS)

    def _say_changes(self, before: dict[Path, tuple[int, int]]) -> None:
        now = written(self._folder)
        changed = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
        if changed and not self._stops.count:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            say(f"{changed[0].relative_to(self._folder)}{more} has changed: starting again")

    def _end(self, program: subprocess.Popen[bytes]) -> int:
        """Let a program stop at its next barrier; who asks twice for the end does not wait for that."""
        program.terminate()
        while program.poll() is None:
            if self._stops.count > 1:
                program.kill()
                program.wait()
                return INTERRUPTED
            self._pause.wait(LOOK_SECONDS / 3)
        return program.returncode


def launched(watch: Watch, command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the program; it ends if this process is killed, and Ctrl-C reaches only this one."""
    return watch.launch(command)


def say(text: str) -> None:
    """Say what happens, on standard error."""
    print(f"penstock: {text}", file=sys.stderr, flush=True)
