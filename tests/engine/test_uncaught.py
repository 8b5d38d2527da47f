"""Who is asked when an error ends the application, and how long a restart waits."""

import pytest

from penstock.engine.uncaught import LONGEST_PAUSE, UncaughtErrors
from penstock.errors import FencedError, ProcessingError

ERROR = ProcessingError("x")


@pytest.mark.parametrize(
    ("policy", "error", "ran", "restarts"),
    [
        ("shutdown", ERROR, True, False),
        ("restart", ERROR, True, True),
        ("restart", ERROR, False, False),
        ("restart", FencedError("x"), True, False),
        ("restart", KeyboardInterrupt(), True, False),
        (lambda error: "restart" if error is ERROR else "shutdown", ERROR, True, True),
        (lambda error: "restart" if error is ERROR else "shutdown", ValueError("y"), True, False),
        (lambda error: "again", ERROR, True, False),
        (lambda error: 1 / 0, ERROR, True, False),
    ],
)
def test_who_decides_and_what_is_never_asked(policy, error, ran, restarts):
    errors = UncaughtErrors(policy)
    assert errors.restarts(error, ran=ran) is restarts
    assert errors.count == int(restarts)


def test_pauses_grow_until_an_epoch_was_committed():
    errors = UncaughtErrors("restart")
    pauses = [errors.pause(committed=False) for _ in range(9)]
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]
    assert errors.pause(committed=True) == 1
