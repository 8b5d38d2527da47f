"""A plugin of pytest: a test that fails is named at once, with its error in a line. The whole message comes at the end of the run."""

from __future__ import annotations

import os
from typing import Any

import pytest


class FailuresAtOnce:
    """Prints in the process that the terminal belongs to."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name a test that has just failed."""
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if not report.failed or terminal is None or os.environ.get("PYTEST_XDIST_WORKER"):
            return
        error = getattr(getattr(report.longrepr, "reprcrash", None), "message", None) or str(report.longrepr)
        terminal.ensure_newline()  # behind the dots of those before
        terminal.write_line(f"failed at {report.when}: {report.nodeid}: {error.splitlines()[0][:200]}", red=True)
