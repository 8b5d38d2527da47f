"""Makes ``upgrade.tar.xz``: all that an application has left behind, as the version before writes it.

    git worktree add --detach FOLDER COMMIT        # and an environment in it, as CONTRIBUTING.md has it
    FOLDER/.venv/bin/python -m tests.golden.make_upgrade_golden

Run by hand, in this tree, by the Python of the version before: it runs the application of ``upgrade_application`` for some rounds, and
ends it. The archive has its state folder and the data folder of its broker, not a dump of topics: an epoch record holds offsets, which
count the markers of transactions, and the ids of topics, which no client can choose.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.golden.upgrade_application import BEFORE, drain, engine, make_topics, rounds, send

import penstock
from penstock.dev.broker import Broker
from penstock.engine.executor.spark_session import make_session, stop_session
from penstock.log.kafka import KafkaLog

HERE = Path(__file__).parent
FILE = HERE / "upgrade.tar.xz"


def run(folder: Path) -> dict[str, object]:
    """Run the first rounds on a broker whose data stay in the folder; return what is known of the run."""
    with Broker(data=folder / "broker") as broker:
        log = KafkaLog(broker.bootstrap_servers, timeout=60)
        make_topics(log)
        session = make_session("local[1]", "golden", {})
        running = engine(broker.bootstrap_servers, folder / "state", session)
        loop = running.start()
        for rows in rounds()[:BEFORE]:
            send(log, rows)
            drain(loop)
        running.close()
        stop_session(session)
        log.close()
    return {"commit": commit(), "epochs": loop.totals.epochs}


def commit() -> str:
    """Return the commit of the version that runs this."""
    checkout = Path(penstock.__file__).parents[2]
    if checkout == HERE.parents[1]:
        sys.exit("run this by the Python of the version before")
    done = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def main() -> None:
    """Write the file."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts = run(folder)
        (folder / "facts.json").write_text(json.dumps(facts, indent=1))
        with tarfile.open(file, "w:xz", preset=9) as files:
            for part in ("facts.json", "broker/log", "state"):
                files.add(folder / part, part)
    print(f"{file}: {file.stat().st_size} bytes", facts)


if __name__ == "__main__":
    main()
