"""Exit codes: the same for every command, so that scripts and orchestrators can tell what to do next."""

from __future__ import annotations

from penstock.errors import ConfigError, FencedError, PenstockError, TopologyError

DONE = 0
FAILED = 1
WRONG_USE = 2
FENCED = 3
INTERRUPTED = 130


class WrongUse(PenstockError):
    """An option, an address or a setting cannot be used: the same call fails again."""


def exit_code(error: BaseException) -> int:
    """Return the code that a command ends with after an error.

    >>> exit_code(ConfigError("lanes='many'")), exit_code(FencedError("taken over")), exit_code(PenstockError("no broker"))
    (2, 3, 1)
    """
    if isinstance(error, FencedError):
        return FENCED
    return WRONG_USE if isinstance(error, WrongUse | ConfigError | TopologyError) else FAILED
