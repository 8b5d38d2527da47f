"""No process outlives the one that started it, however that one ends.

A shell watches a pipe that only this process holds open. When this process ends, even by kill -9, the pipe closes, and the
shell ends everything it was told of: in order where data are kept, else at once, and then it removes the temporary folder.
What is launched, and the shell too, is a session of its own, so Ctrl-C in a terminal reaches only this process, which then
stops the others in order.

The session also tells who belongs together: a process, its children, and theirs. `session` lists them, `kill_session` ends
them all at once, as a machine that loses power.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

#: each line names a process group, or says that all is over; the end of the pipe means that the parent died
_SCRIPT = """
folder=$1; groups=
while read -r word group; do
  [ "$word" != over ] || exit 0
  groups="$groups $group"
done
tell() { for group in $groups; do kill -s "$1" -- "-$group" 2>/dev/null; done; }
alive() {
  for group in $groups; do
    read -r line < "/proc/$group/stat" && case ${line##*) } in [ZX]*) ;; *) return 0;; esac
  done
  return 1
}
await() { for i in 1 2 3 4 5 6 7 8 9 10; do alive || return; sleep 0.5; done; }
[ -n "$folder" ] || { tell TERM; tell CONT; await; }
tell KILL
[ -z "$folder" ] || { await; rm -rf -- "$folder" || { sleep 1; rm -rf -- "$folder"; }; }
"""


class Watch:
    """Launches processes and sees to it that they end with this one; ``folder`` is removed then.

    ``release`` it when the processes have been ended in order.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._shell = subprocess.Popen(
            ["sh", "-c", _SCRIPT, "penstock-watch", str(folder.absolute()) if folder is not None else ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def launch(
        self, command: Sequence[str], log_file: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process as the leader of a session; what it says goes to a file, else where ours does. Its environment, too."""
        with contextlib.ExitStack() as files:
            log = None if log_file is None else files.enter_context(log_file.open("wb"))
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=None if log is None else subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self._say(f"guard {process.pid}")
        return process

    def release(self) -> None:
        """Watch no longer; nothing is ended and nothing removed. A second call does nothing."""
        if self._shell.poll() is None:
            self._say("over")
            self._shell.wait()
        if self._shell.stdin is not None:
            self._shell.stdin.close()

    def _say(self, line: str) -> None:
        assert self._shell.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # somebody ended the shell: it watches no more
            self._shell.stdin.write(f"{line}\n".encode())


def session(leader: int) -> list[int]:
    """Return the living processes of a session, children that outlive their parents too."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended while we looked
            state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(of) == leader and state not in "ZX":
                found.append(int(entry.name))
    return found


def kill_session(leader: int) -> None:
    """End all processes of a session at once, and return when none is left."""
    while living := session(leader):
        for pid in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await_end(living, timeout=10)


def await_end(pids: Iterable[int], timeout: float) -> bool:
    """Wait until processes have ended, each for so many seconds at most; tell whether all have."""
    ended = True
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            try:
                poll = select.poll()
                poll.register(handle, select.POLLIN)
                ended = bool(poll.poll(timeout * 1000)) and ended
            finally:
                os.close(handle)
    return ended
