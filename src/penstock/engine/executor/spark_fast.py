"""Jobs on the classes below PySpark's RDD interface."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any


class FastJobs:
    """Runs functions in tasks, as ``mapPartitionsWithIndex(...).partitionBy(...)....collect()`` does.

    That asks the JVM some thirty questions for each function, half a millisecond each; most of the answers are always the same.
    A function is called with the number of the task and with what comes to it: numbers that mean nothing, or bytes.
    """

    def __init__(self, context: Any, broadcast: Any, lanes: int) -> None:
        from py4j.java_collections import ListConverter, MapConverter  # type: ignore[import-untyped]
        from pyspark.serializers import NoOpSerializer

        client = context._gateway._gateway_client
        self._context, self._jvm, self._bytes = context, context._jvm, NoOpSerializer()
        self._surroundings = (
            MapConverter().convert(context.environment, client),
            ListConverter().convert(context._python_includes, client),
            context.pythonExec,
            context.pythonVer,
            ListConverter().convert([broadcast._jbroadcast], client),
            context._javaAccumulator,
        )
        self._by_lane = self._jvm.PythonPartitioner(lanes, 0)
        self._tasks: dict[int, tuple[Any, Any]] = {}

    def run(self, tasks: int, functions: Sequence[Callable[[int, Iterable[Any]], Iterable[bytes]]]) -> list[bytes]:
        """Return what the last function returns in all tasks. Of others it goes to a lane each: (lane, bytes) in turn."""
        from pyspark.util import _load_from_socket

        if tasks not in self._tasks:
            rows = self._context.parallelize(list(range(tasks)), tasks)
            self._tasks[tasks] = rows._jrdd.rdd(), rows._jrdd_deserializer
        *earlier, last = functions
        coming, codec = self._tasks[tasks]
        for function in earlier:
            pairs = self._jvm.PairwiseRDD(self._called(coming, codec, function)).asJavaPairRDD()
            coming, codec = self._jvm.PythonRDD.valueOfPair(pairs.partitionBy(self._by_lane)).rdd(), self._bytes
        where = self._jvm.PythonRDD.collectAndServe(self._called(coming, codec, last))
        answers: Any = _load_from_socket(where, self._bytes)
        if not hasattr(answers, "__enter__"):  # before Spark 4.2
            return list(answers)
        with answers as found:
            return list(found)

    def _called(self, coming: Any, codec: Any, function: Callable[..., Any]) -> Any:
        command = pickle.dumps((function, None, codec, self._bytes))
        self._context._pickled_broadcast_vars.clear()  # who pickles a broadcast is on the list of what a job needs: see above
        return self._jvm.PythonRDD(
            coming, self._jvm.SimplePythonFunction(bytearray(command), *self._surroundings), False, False
        )

    def close(self) -> None:
        """Do nothing: what Spark keeps is let go of with its session."""
