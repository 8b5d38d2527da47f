"""``context.commit()`` in the loop: the next epoch does not wait for the commit interval."""

from functools import partial

import pytest
from tests.engine import test_epoch_faults as in_memory

from penstock.protocol.report import TaskReport


@pytest.mark.parametrize(("asked", "epochs"), [(True, 2), (False, 1)])
def test_after_a_request_to_commit_the_loop_looks_for_work_before_it_rests(asked, epochs, monkeypatch):
    monkeypatch.setattr(in_memory, "TaskReport", partial(TaskReport, commit_requested=asked))
    world = in_memory.World()
    loop = world.start(in_memory.Plan())
    looked, step = [], loop.step

    def rest(seconds: float) -> None:
        loop.stopping = True

    monkeypatch.setattr(loop, "step", lambda: looked.append(step()) or looked[-1])
    monkeypatch.setattr(loop, "_pause", rest)
    loop.run()
    assert looked == [True, False][:epochs]
    world.check_all()
