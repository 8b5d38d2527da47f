"""What is measured: rates from commit to commit, processor time and memory of all processes of a program."""

import os
import subprocess
import sys

import pytest
from bench.measure import Footprint, NothingToMeasure, Sample, machine_cpu_seconds, members, part

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=sys.stdin, start_new_session=True)
child.wait()
"""
CHILD = """
import sys, time
block = bytearray(b"x" * 200_000_000)
while time.process_time() < 0.5: pass
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def family():
    """A program and its child, which has a session of its own, 200 MB, and has worked for half a second."""
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout.readline() == b"ready\n"
        yield parent
        parent.stdin.close()  # the end of its input ends the child, and that the parent


def test_the_rate_begins_with_a_commit_and_ends_with_the_last():
    samples = [
        Sample(0, 0),
        Sample(10, 300, 5, 1),
        Sample(11, 300, 6, 2),
        Sample(14, 1_100, 9, 3, 2),
        Sample(20, 1_100),
    ]
    measured = part(samples, 200, 1_100)
    assert (measured.records, measured.seconds, measured.rate) == (800, 4, 200)
    assert (measured.cpu_seconds, measured.broker_cpu_seconds, measured.other_cpu_seconds) == (4, 2, 2)


def test_a_part_that_one_commit_covers_is_refused():
    with pytest.raises(NothingToMeasure, match="Take more records"):
        part([Sample(0, 0), Sample(1, 100)], 20, 100)


def test_a_run_that_did_not_reach_the_end_is_refused():
    with pytest.raises(NothingToMeasure, match="only 50 of 100"):
        part([Sample(0, 0), Sample(1, 50)], 20, 100)


def test_a_child_with_a_session_of_its_own_belongs_to_the_program(family):
    assert len(members(family.pid)) == 2
    assert os.getpid() not in members(family.pid)


def test_processor_time_and_memory_of_children_count(family):
    footprint = Footprint(family.pid)
    footprint.sample()
    assert footprint.cpu_seconds >= 0.45  # half a second, in ticks of a hundredth, rounded down for each kind of time
    assert footprint.peak_bytes >= footprint.peak_proportional_bytes >= 200_000_000
    assert sum(usage.processes for usage in footprint.roles.values()) == 2
    assert footprint.roles["program"].peak_bytes < 200_000_000


def test_processor_time_of_a_child_that_ended_still_counts(family):
    before, after = Footprint(os.getpid()), Footprint(os.getpid())
    before.sample()
    family.stdin.close()
    family.wait()
    assert members(family.pid) == {}
    after.sample()
    assert after.cpu_seconds >= before.cpu_seconds  # without the child it would be half a second less


def test_the_machine_uses_at_least_what_a_process_uses():
    footprint = Footprint(os.getpid())
    footprint.sample()
    assert machine_cpu_seconds() >= footprint.cpu_seconds - 0.1
