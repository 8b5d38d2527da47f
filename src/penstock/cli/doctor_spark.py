"""The doctor looks at Spark: whether another one is in the way, and, asked to, whether it runs and finds Kafka.

Spark is tried in a process of its own, with a limit of time: it may fail in ways that leave a JVM hanging.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.cli.finding import Finding

LIMIT_SECONDS = 180

#: makes the session that an application would, and runs a Python function in it; then one that asks Kafka for its topics
PROBE = """
import json, sys
from penstock.engine.executor.spark_session import make_session

asked = json.load(sys.stdin)
session = make_session("local[1]", "penstock doctor")
context = session.sparkContext
rows = context.parallelize(range(1000), 1).mapPartitions(lambda numbers: numbers).count()
told = {"spark": session.version, "java": session._jvm.java.lang.System.getProperty("java.version"), "rows": rows}

def topics(_):
    from penstock.log.kafka import KafkaLog

    log = KafkaLog(asked["servers"], asked["kafka"])
    yield from log.admin.topics()
    log.close()

if asked["reachable"]:
    told["topics"] = context.parallelize([0], 1).mapPartitions(topics).count()
session.stop()
print(json.dumps(told))
"""


def examine(servers: str, kafka: Mapping[str, Any], full: bool) -> Iterator[Finding]:
    """Look at the environment and, if ``full``, start Spark."""
    yield from other_spark(os.environ.get("SPARK_HOME"))
    if full:
        yield from session({"servers": servers, "kafka": dict(kafka), "reachable": is_reachable(servers)})


def other_spark(home: str | None) -> Iterator[Finding]:
    """Check that SPARK_HOME, which PySpark obeys, does not lead to a Spark of another version."""
    from penstock.dev.jars import spark_home

    if home is None:
        return
    ours = {path.name for path in (spark_home() / "jars").glob("spark-core_*.jar")}
    theirs = {path.name for path in (Path(home) / "jars").glob("spark-core_*.jar")}
    advice = "" if ours & theirs else f"PySpark would use that Spark, not its own ({', '.join(ours)}): unset SPARK_HOME"
    yield Finding("SPARK_HOME", f"{home} ({', '.join(sorted(theirs)) or 'no Spark'})", advice)


def session(question: Mapping[str, Any], limit: float = LIMIT_SECONDS) -> Iterator[Finding]:
    """Start Spark as an application would, and let it do a little work."""
    import subprocess
    import sys

    from penstock.dev.watch import kill_session

    with subprocess.Popen(
        [sys.executable, "-c", PROBE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            told, complaint = process.communicate(json.dumps(question, default=str), timeout=limit)
        except subprocess.TimeoutExpired:
            advice = "see what keeps it: memory, a proxy, a name of this machine that nobody knows"
            yield Finding("Spark", f"did not do its work within {limit:g} s", advice)
            return
        finally:
            kill_session(process.pid)
    if process.returncode != 0:
        lines = [line for line in complaint.splitlines() if line.strip()]
        yield Finding("Spark", "does not run", lines[-1] if lines else f"it ended with code {process.returncode}")
        return
    yield Finding("Spark", summary(json.loads(told.splitlines()[-1])))


def summary(told: Mapping[str, Any]) -> str:
    """Explain what the session did.

    >>> summary({"spark": "4.2.0", "java": "21.0.8", "rows": 1000})
    '4.2.0 on Java 21.0.8 ran a Python function on 1000 rows; Kafka was not asked'
    """
    kafka = "it found Kafka" if "topics" in told else "Kafka was not asked"
    return f"{told['spark']} on Java {told['java']} ran a Python function on {told['rows']} rows; {kafka}"


def is_reachable(servers: str) -> bool:
    """Whether some server of a cluster answers; what is wrong with the others has been said already."""
    from penstock.cli.doctor_kafka import unreachable

    return len(unreachable(servers.split(","))) < len(servers.split(","))
