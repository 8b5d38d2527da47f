"""The count-and-sum job as a program of Penstock::

    python -m bench.peers.count_sum bootstrap application-id in out exactly_once|at_least_once lanes state-dir [name=value ...]

What follows are settings of Penstock. It prints a line for each state, ends at the end of its standard input or at SIGTERM, and
tells its metrics at last.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

from bench.peers.job import build
from penstock.app import App, State


def announce(now: State, before: State) -> None:
    print(now.name, flush=True)


def end_with_input() -> None:
    """Ask this process to end when nobody holds the other end of its standard input any more."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main(arguments: list[str]) -> None:
    bootstrap, application_id, source, target, guarantee, lanes, state_dir, *given = arguments
    settings: dict[str, Any] = dict(setting.split("=", 1) for setting in given)
    app = App(
        build(source, target),
        application_id=application_id,
        bootstrap_servers=bootstrap,
        processing_guarantee=guarantee,
        lanes=int(lanes),
        master=f"local[{lanes}]",
        state_dir=state_dir,
        **settings,
    )
    app.on_state_change(announce)
    threading.Thread(target=end_with_input, daemon=True).start()
    app.run()
    metrics = {name: value for name, value in app.metrics().items() if name in ("epochs", "retries", "spent_us")}
    print("METRICS", json.dumps(metrics), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
