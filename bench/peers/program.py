"""A job as a program of Penstock::

    python -m bench.peers.program job bootstrap application-id exactly_once|at_least_once lanes state-dir in,in out [name=value ...]

What follows are settings of Penstock; those that begin with ``job.`` are the job's own, ``job.profile`` tells the metrics every
second, ``job.http`` is the port of its look-ups, ``job.watched`` lets somebody watch it. It prints a line for each state and for a
restore, ends at the end of its standard input or at SIGTERM, and tells its metrics at last.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

from penstock.app import App, State
from penstock.engine.executor.spark_session import make_session
from penstock.engine.recovery import RestoreProgress

TOLD = ("epochs", "retries", "records_in", "spent_us")


def announce(now: State, before: State) -> None:
    print(now.name, flush=True)


def announce_restore(progress: RestoreProgress) -> None:
    if progress.done:
        print("RESTORED", progress.restored, flush=True)


def end_with_input() -> None:
    """Ask this process to end when nobody holds the other end of its standard input any more."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def tell_metrics(app: App) -> None:
    metrics = app.metrics()
    print("METRICS", json.dumps({name: metrics[name] for name in TOLD if name in metrics}), flush=True)


def keep_telling(app: App, over: threading.Event) -> None:
    """Tell the metrics every second."""
    while not over.wait(1):
        tell_metrics(app)


def watch(app: App) -> None:
    """Let a process of a session of its own do what Prometheus and the page do, until this one ends."""
    command = [sys.executable, "-m", "bench.watching", f"http://{app.admin_address}"]
    subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def main(arguments: list[str]) -> None:
    job, bootstrap, application_id, guarantee, lanes, state_dir, sources, target, *given = arguments
    settings: dict[str, Any] = dict(setting.split("=", 1) for setting in given)
    options = {name.removeprefix("job."): settings.pop(name) for name in list(settings) if name.startswith("job.")}
    profile, watched = options.pop("profile", None), options.pop("watched", None)
    if port := options.pop("http", None):
        settings["admin"] = port
    module = importlib.import_module(f"bench.workloads.{job}")
    session = make_session(settings.pop("master", f"local[{lanes}]"), f"penstock {application_id}")
    print("RESTORING", flush=True)  # from here on it asks Kafka, and restores what there is
    app = App(
        module.build(sources.split(","), target, **options),
        spark=session,
        application_id=application_id,
        bootstrap_servers=bootstrap,
        **{"processing_guarantee": guarantee, "lanes": int(lanes), "state_dir": state_dir, **settings},
    )
    app.on_state_change(announce)
    app.on_restore(announce_restore)
    over = threading.Event()
    if watched:
        app.hooks["POST_START"].append(watch)
    threading.Thread(target=end_with_input, daemon=True).start()
    if profile:
        threading.Thread(target=keep_telling, args=(app, over), daemon=True).start()
    app.run()
    over.set()
    tell_metrics(app)
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
