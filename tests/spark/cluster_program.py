"""A program that runs cases on a Spark cluster, each with the test driver beside it, and prints one line of JSON for each case.

    python -m tests.spark.cluster_program <bootstrap servers> <cluster settings as JSON> <folder>  < cases as JSON lines

One process has one Spark at a time, so this is not done in the process of the tests.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.spark.families import FAMILIES
from tests.spark.runs import Bench, Case, Layout, Seen
from tests.spark.same import assert_same
from tests.spark.scripts import build, inputs, outputs, renamed, script
from topologies import TOPOLOGIES

from penstock.engine.executor.spark_session import make_session
from penstock.topology.topology import Topology


def without_copies(seen: Seen, topology: Topology) -> Seen:
    """Leave out what global tables dropped: every executor has a copy of them, and each copy counts."""
    tables = {name for table in topology.global_stores.values() for name in (table.source.name, table.processor.name)}
    kept = {place: count for place, count in seen.dropped.items() if place[0] not in tables}
    return replace(seen, dropped=kept)


def run(bench: Bench, name: str, layout: Layout, nulls: bool) -> dict[str, Any]:
    """Run a case; tell its epochs, its application, and the difference if there is one."""
    application = bench.fresh(f"cluster-{name}")
    topology = renamed(build({**TOPOLOGIES, **FAMILIES}[name]), f"{application}.")
    reads = inputs(topology, f"{application}.")
    case = Case(bench, topology, application, reads, outputs(topology), layout, {})
    difference = ""
    try:
        case.run(script(name, reads, layout.partitions, nulls=nulls))
        assert_same(without_copies(case.seen(), topology), without_copies(case.driver.seen(), topology))
    except Exception as error:  # what went wrong is the answer
        difference = f"{type(error).__name__}: {error}"
    finally:
        epochs = 0 if case.engine.loop is None else case.engine.loop.totals.epochs
        case.close()
    return {"name": name, "application": application, "epochs": epochs, "difference": difference}


def main(servers: str, settings: str, folder: str) -> None:
    """Run what the standard input names."""
    options = json.loads(settings)
    session = make_session(options["spark.master"], "penstock cluster tests", options)
    bench = Bench(servers, session, Path(folder), options["spark.master"])
    for line in sys.stdin:
        name, layout, nulls = json.loads(line)
        print(json.dumps(run(bench, name, Layout(*layout), nulls)), flush=True)
    bench.close()
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
