"""What a worker is at: one that hangs is asked, and answers with the line; one that does not know the signal is left alone."""

import os
import subprocess
import sys
import time

from penstock.admin.worker_stacks import worker_stacks

BODY = """
import sys, time
from penstock.lane.activity import ACTIVITY
from penstock.lane.failing_node import name_code

def hang(value):
    print("hangs", flush=True)
    time.sleep(60)

if sys.argv[1] == "worker":
    ACTIVITY.begin("epoch 1, step 0, lane 0")
    ACTIVITY.begin("epoch 17, step 2, lane 1")
name_code(lambda value: hang(value), "price")(1)
"""


def started(path, kind: str) -> subprocess.Popen:
    made = subprocess.Popen([sys.executable, path, kind], stdout=subprocess.PIPE, text=True)
    assert made.stdout is not None
    assert made.stdout.readline() == "hangs\n"
    time.sleep(0.1)
    return made


def test_a_worker_that_hangs_says_where_again_and_again(tmp_path):
    path = tmp_path / "shop.py"
    path.write_text(BODY)
    worker, other = started(path, "worker"), started(path, "other")
    try:
        for _ in range(3):
            told = {each["process"]: each for each in worker_stacks({"price", "orders"})}
            assert other.pid not in told
            found = told[worker.pid]
            assert found["stack"][-1] == f"hang ({path}:8)"
            assert f"price ({path}:13)" in found["stack"]
        assert worker.poll() is None
        assert other.poll() is None
    finally:
        for process in (worker, other):
            process.kill()
            process.wait()
    assert os.getpid() not in told


def test_a_frame_is_told_as_node_and_line_and_waiting_as_waiting(tmp_path):
    from penstock.admin import worker_stacks as asked

    house = asked._HOUSE
    busy = (
        f'Thread 0x1 (most recent call first):\n  File "{house}/x.py", line 1 in run\n\nCurrent thread 0x2 (most recent call first):\n'
        f'  File "/srv/shop.py", line 8 in hang\n  File "{house}/operators/stateless.py", line 3 in price\n'
        f'  File "{house}/lane/run.py", line 9 in run\n  File "{house}/protocol/channel.py", line 4 in serve\n'
    )
    found = asked._described(7, "epoch 17", busy, {"price"})
    assert (found["doing"], found["node"], found["resident"]) == ("price: hang (/srv/shop.py:8)", "price", True)
    assert found["task"] == "epoch 17"
    waits = f'Current thread 0x2 (most recent call first):\n  File "{house}/protocol/channel.py", line 4 in serve\n'
    found = asked._described(7, "epoch 17", waits, {"price"})
    assert (found["doing"], found["task"]) == ("waits for the next epoch", None)
    elsewhere = 'Current thread 0x2 (most recent call first):\n  File "/usr/lib/socket.py", line 4 in read\n'
    assert asked._described(7, "", elsewhere, {"price"})["doing"] == "waits for a task"
    assert asked._described(7, "", "", {"price"})["doing"] == "has not answered"
