"""What Spark's JVM says: kept while it starts, passed on after."""

import os

from penstock.engine.chatter import Chatter


def said(chatter: Chatter, line: str) -> None:
    os.write(chatter.writing_end, f"{line}\n".encode())


def test_what_is_said_before_spark_stands_is_kept_and_what_comes_after_is_passed_on(capsys):
    chatter = Chatter()
    said(chatter, "WARN NativeCodeLoader: nobody asked")
    assert chatter.listen_after(lambda mark: said(chatter, mark))
    said(chatter, "printed in a lane")
    chatter.close_writing_end()
    assert chatter.last_words() == "WARN NativeCodeLoader: nobody asked"
    assert capsys.readouterr().err == "printed in a lane\n"


def test_a_chatter_that_is_hushed_again_passes_nothing_on(capsys):
    chatter = Chatter()
    chatter.listen_after(lambda mark: said(chatter, mark))
    chatter.hush()
    said(chatter, "a second start")
    chatter.close_writing_end()
    assert chatter.last_words() == "a second start"
    assert capsys.readouterr().err == ""


def test_a_closed_stderr_does_not_stop_the_reading(monkeypatch, tmp_path):
    closed = (tmp_path / "stderr").open("w")
    closed.close()
    monkeypatch.setattr("sys.stderr", closed)
    chatter = Chatter()
    chatter.listen_after(lambda mark: said(chatter, mark))
    said(chatter, "lost")
    assert chatter.listen_after(lambda mark: said(chatter, mark))
    chatter.close_writing_end()
