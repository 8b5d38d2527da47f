"""Which body runs the jobs: ``spark_fast``, on classes below PySpark's interface, ``spark``, on its public interface alone, or
``in_process``, without Spark's tasks, where a debugger is wanted.

The classes below the interface may change with every version of Spark. So ``auto`` takes ``spark_fast`` where it was tested with
the version that is installed, and elsewhere, or without the file, ``spark``, which gives the same results, later.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Any

from penstock.engine.executor.base import Jobs
from penstock.engine.executor.spark_public import PublicJobs
from penstock.errors import ConfigError

logger = logging.getLogger("penstock.engine")

AUTO, SPARK, SPARK_FAST, IN_PROCESS = "auto", "spark", "spark_fast", "in_process"

#: versions of Spark that passed tests/app/test_executors.py with ``spark_fast`` (.ci/spark_versions runs it with others)
TESTED = ("4.0.5", "4.1.4", "4.2.0")


def chosen(executor: str, version: str) -> str:
    """Return the body that a value of the setting ``executor`` means with a version of Spark.

    >>> chosen("auto", "4.2.0"), chosen("auto", "4.9.1"), chosen("spark_fast", "4.9.1")
    ('spark_fast', 'spark', 'spark_fast')
    """
    if executor != AUTO:
        return executor
    return SPARK_FAST if version in TESTED and find_spec("penstock.engine.executor.spark_fast") else SPARK


def make_jobs(executor: str, context: Any, broadcast: Any, lanes: int, identity: str) -> Jobs:
    """Make what runs the jobs; warn if the installed version of Spark made the choice."""
    body = chosen(executor, context.version)
    if body == IN_PROCESS:
        if not context.master.startswith("local"):
            raise ConfigError(
                f"executor='in_process' runs the lanes in this process, but the master is {context.master}"
            )
        from penstock.engine.executor.in_process_jobs import InProcessJobs

        return InProcessJobs(identity, lanes)
    if body == SPARK:
        if executor == AUTO:
            logger.warning(
                "spark_fast was not tested with Spark %s (but with %s): epochs run on PySpark's public interface, with the same "
                "results and more milliseconds each. executor='spark' says that this is meant",
                context.version,
                ", ".join(TESTED),
            )
        return PublicJobs(context, lanes)
    from penstock.engine.executor.spark_fast import FastJobs

    return FastJobs(context, broadcast, lanes)
