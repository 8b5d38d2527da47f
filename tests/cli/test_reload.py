"""``penstock run --reload``: a change stops the program at a barrier and starts it again; what is broken is waited out."""

import signal
import subprocess
import sys
import threading

import pytest

from penstock.cli.exits import INTERRUPTED
from penstock.cli.reload import Reloader, files_of, written
from penstock.cli.run import Stops


def test_programs_and_settings_are_watched_and_environments_are_not(tmp_path):
    for path in (
        "app.py",
        "rooms/orders.py",
        "pyproject.toml",
        "notes.txt",
        ".git/hook.py",
        "venv/lib/x.py",
        "__pycache__/y.py",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    assert {path.relative_to(tmp_path).as_posix() for path in files_of(tmp_path)} == {
        "app.py",
        "rooms/orders.py",
        "pyproject.toml",
    }


class Programs:
    """Launches a small program of the folder, and tells how often."""

    def __init__(self, folder):
        self.file = folder / "program.py"
        self.started = []
        self.runs = threading.Semaphore(0)

    def launch(self):
        self.started.append(subprocess.Popen([sys.executable, str(self.file)]))
        self.runs.release()
        return self.started[-1]

    def change(self, text):
        self.file.write_text(text)


@pytest.fixture
def programs(tmp_path):
    made = Programs(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.wait()


@pytest.fixture
def reloader(programs, tmp_path):
    stops, codes = Stops(), []
    thread = threading.Thread(target=lambda: codes.append(Reloader(tmp_path, programs.launch, stops).run()))
    yield thread, stops, codes
    stops.count += 2
    thread.join(30)


SLEEP = "import threading\nthreading.Event().wait()"


def test_a_change_starts_it_again_until_someone_asks_for_the_end(programs, reloader):
    thread, stops, codes = reloader
    programs.change(SLEEP)
    thread.start()
    assert programs.runs.acquire(timeout=30)
    programs.change(SLEEP + "  # changed")
    assert programs.runs.acquire(timeout=30)
    assert programs.started[0].wait(30) == -signal.SIGTERM
    stops.count = 1
    thread.join(30)
    assert codes == [-signal.SIGTERM]
    assert len(programs.started) == 2


def test_a_program_that_fails_is_waited_out(programs, reloader, capfd):
    thread, stops, _ = reloader
    programs.change("raise SystemExit(2)")
    thread.start()
    assert programs.runs.acquire(timeout=30)
    programs.started[0].wait(30)
    assert not programs.runs.acquire(timeout=1)
    programs.change(SLEEP)
    assert programs.runs.acquire(timeout=30)
    stops.count = 1
    thread.join(30)
    said = capfd.readouterr().err
    assert "ended with exit code 2; waiting for a change" in said
    assert "program.py has changed: starting again" in said


def test_who_asks_twice_does_not_wait_for_the_barrier(programs, reloader):
    thread, stops, codes = reloader
    programs.change("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEP)
    thread.start()
    assert programs.runs.acquire(timeout=30)
    stops.count = 2
    thread.join(30)
    assert codes == [INTERRUPTED]


def test_a_file_that_goes_or_comes_is_a_change(tmp_path):
    before = written(tmp_path)
    (tmp_path / "new.py").write_text("")
    assert written(tmp_path) != before
    (tmp_path / "new.py").unlink()
    assert written(tmp_path) == before


def test_the_command_shows_what_is_broken_and_waits_for_a_change(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("this is no Python")
    process = subprocess.Popen(
        [sys.executable, "-c", "from penstock.cli import main; main()", "run", "--reload", f"{program}:app", "--plain"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert "could not be imported: SyntaxError" in process.stderr.readline()
        assert "ended with exit code 2; waiting for a change" in process.stderr.readline()
        program.write_text(
            "from penstock import App, StreamsBuilder\napp = App(StreamsBuilder(), application_id='a', lane=1)\n"
        )
        assert "program.py has changed: starting again" in process.stderr.readline()
        assert "did you mean 'lanes'?" in process.stderr.readline()
        assert "ended with exit code 2" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 2
    finally:
        process.kill()
        process.communicate()
