"""What Spark's JVM says: kept while it starts, passed on after."""

import os

from penstock.engine.executor.jvm_stderr import JvmStderr


def said(stderr: JvmStderr, line: str) -> None:
    os.write(stderr.writing_end, f"{line}\n".encode())


def test_what_is_said_before_spark_stands_is_kept_and_what_comes_after_is_passed_on(capsys):
    stderr = JvmStderr()
    said(stderr, "WARN NativeCodeLoader: nobody asked")
    assert stderr.listen_after(lambda mark: said(stderr, mark))
    said(stderr, "printed in a lane")
    stderr.close_writing_end()
    assert stderr.last_words() == "WARN NativeCodeLoader: nobody asked"
    assert capsys.readouterr().err == "printed in a lane\n"


def test_a_chatter_that_is_hushed_again_passes_nothing_on(capsys):
    stderr = JvmStderr()
    stderr.listen_after(lambda mark: said(stderr, mark))
    stderr.hush()
    said(stderr, "a second start")
    stderr.close_writing_end()
    assert stderr.last_words() == "a second start"
    assert capsys.readouterr().err == ""


def test_a_closed_stderr_does_not_stop_the_reading(monkeypatch, tmp_path):
    closed = (tmp_path / "stderr").open("w")
    closed.close()
    monkeypatch.setattr("sys.stderr", closed)
    stderr = JvmStderr()
    stderr.listen_after(lambda mark: said(stderr, mark))
    said(stderr, "lost")
    assert stderr.listen_after(lambda mark: said(stderr, mark))
    stderr.close_writing_end()


GONE = """Traceback (most recent call last):
  File "/x/pyspark.zip/pyspark/daemon.py", line 262, in manager
  File "/x/pyspark.zip/pyspark/daemon.py", line 95, in worker
BrokenPipeError: [Errno 32] Broken pipe"""
MINE = """Traceback (most recent call last):
  File "/home/me/app.py", line 3, in <lambda>
    print(1 / 0)
BrokenPipeError: not that of the daemon"""


def test_a_worker_that_spark_sends_home_is_not_heard_and_a_traceback_of_the_user_is(capsys):
    stderr = JvmStderr()
    stderr.listen_after(lambda mark: said(stderr, mark))
    for text in ("before", GONE, MINE, GONE, "after", "Traceback (most recent call last):", "  File: cut"):
        said(stderr, text)
    stderr.close_writing_end()
    stderr.last_words()
    assert capsys.readouterr().err == f"before\n{MINE}\nafter\nTraceback (most recent call last):\n  File: cut\n"


def test_two_workers_that_are_sent_home_at_once_are_not_heard_either(capsys):
    head, first, second, end = GONE.splitlines()
    stderr = JvmStderr()
    stderr.listen_after(lambda mark: said(stderr, mark))
    for text in (
        head,
        head,
        first,
        second,
        end,
        first,
        second,
        end,
        "between",
        head,
        first,
        head,
        first,
        second,
        second,
        end,
        end,
    ):
        said(stderr, text)
    for text in (end, head, "the user's word", first, second, end):
        said(stderr, text)
    stderr.close_writing_end()
    stderr.last_words()
    assert capsys.readouterr().err.splitlines() == ["between", end, head, "the user's word", first, second, end]


def test_a_jvm_that_ends_for_want_of_memory_is_told_from_others(capsys):
    for line, wanted in ("Terminating due to java.lang.OutOfMemoryError: Java heap space", True), ("Killed", False):
        stderr = JvmStderr()
        stderr.listen_after(lambda mark, stderr=stderr: said(stderr, mark))
        said(stderr, line)
        stderr.close_writing_end()
        assert stderr.ran_out_of_memory() is wanted
        assert capsys.readouterr().err == f"{line}\n"
