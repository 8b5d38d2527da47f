"""What handles the failures of a task: names node, record and function, asks the policies, keeps dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any, NoReturn, Protocol

from penstock.errors import DeserializationError, StreamsError
from penstock.lane.failing_node import failing_node, name_code, processing_error
from penstock.lane.sink import Row, SinkBatch, refused
from penstock.lane.source import Raw
from penstock.operators.base import Forward
from penstock.protocol.failed_records import FailureGroups
from penstock.protocol.failure import decide, error_headers
from penstock.record import Headers, Origin, Record
from penstock.setting_checks import POLICIES, RETRY
from penstock.topology.node import ProcessorNode, SinkNode, SourceNode
from penstock.topology.topology import Topology


class HandlesErrors(Protocol):
    """What an error handler asks of the task: the record at hand, where rows go that leave, who counts what is dropped."""

    topology: Topology
    config: Mapping[str, Any]
    origin: Origin
    outputs: list[Row | SinkBatch]
    failures: FailureGroups

    def drop_at(self, node: str, reason: str) -> None:
        """Count a dropped record."""


class _Decided(Exception):
    """A failure that the policy has decided about: it passes every other guard on its way out."""

    def __init__(self, error: StreamsError) -> None:
        super().__init__(str(error))
        self.error = error


class ErrorHandler:
    """Handles what the nodes of one task raise."""

    def __init__(self, task: HandlesErrors) -> None:
        self._task = task
        self._node_of_code: dict[CodeType, str] = {}

    def named(self, on_record: Forward, node: str) -> Forward:
        """Give a closure the name of its node, so that an exception below it is the node's."""
        named = name_code(on_record, node)
        code = getattr(named, "__code__", None)
        if code is not None:
            self._node_of_code[code] = node
        return named

    def node_at(self, frame: FrameType | None) -> str | None:
        """Return the innermost node below which a frame is."""
        while frame is not None and frame.f_code not in self._node_of_code:
            frame = frame.f_back
        return None if frame is None else self._node_of_code[frame.f_code]

    def handle(
        self, node: str, record: Record[Any, Any] | None, timestamp: int, headers: Headers, error: Exception
    ) -> None:
        """Ask the processing policy about a node's failure; raises if it says fail."""
        if isinstance(error, _Decided):
            raise error
        explained = processing_error(error, node, self._task.origin, self._functions(node))
        answer = decide(self._task.config["on_processing_error"], explained, record)
        if answer == "fail":
            raise _Decided(explained)
        self._drop(node, "processing_error", answer, timestamp, headers, error, explained.function)

    def handle_timed(self, node: str, timestamp: int, error: Exception) -> None:
        """Handle the failure of what a node does when its time has come; nobody guards it."""
        try:
            self.handle(failing_node(error, self._node_of_code) or node, None, timestamp, (), error)
        except _Decided as decided:
            self.fail(decided)

    def refuse_input(self, source: str, raw: Raw, error: DeserializationError) -> None:
        """Ask the deserialization policy about a record that cannot be read; raises if it says fail."""
        answer = decide(self._task.config["on_deserialization_error"], error, raw)
        if answer == "fail":
            raise error
        cause, origin = error.__cause__ or error, raw.coordinates()
        self._task.drop_at(source, "deserialization_error")
        self._task.failures.add(source, "deserialization_error", answer, origin, cause)
        if answer == "dead_letter":
            self._task.origin = origin
            self.dead_letter(source, raw.timestamp, raw.headers, cause)

    def refuse(self, sink: SinkNode, key: Any, value: Any, timestamp: int, headers: Headers, error: Exception) -> None:
        """Ask the production policy about a record that a sink cannot write; raises if it says fail."""
        explained = refused(sink, self._task.origin, error)
        record = Record(key, value, max(timestamp, 0), headers)
        answer = decide(self._task.config["on_production_error"], explained, record, answers=(*POLICIES, RETRY))
        if answer in ("fail", RETRY):  # as in Kafka: the same serde would refuse it again
            raise explained
        self._drop(sink.name, "serialization_error", answer, timestamp, headers, error)

    def _drop(
        self,
        node: str,
        reason: str,
        answer: str,
        timestamp: int,
        headers: Headers,
        error: BaseException,
        function: str | None = None,
    ) -> None:
        self._task.drop_at(node, reason)
        self._task.failures.add(node, reason, answer, self._task.origin, error, function)
        if answer == "dead_letter":
            self.dead_letter(node, timestamp, headers, error)

    def dead_letter(self, node: str, timestamp: int, headers: Headers, error: BaseException) -> None:
        """Keep the raw source record of a failure in the dead-letter topic, inside the same barrier."""
        origin, topic = self._task.origin, self._task.config["dead_letter_topic"]
        told = error_headers(headers, origin, node, error)
        self._task.outputs.append(Row(topic, None, origin.key, origin.value, timestamp, told, False, origin))

    def fail(self, error: Exception) -> NoReturn:
        """Raise an exception with node, record and function; one that a policy has decided about is raised as it is."""
        if isinstance(error, _Decided):
            explained = error.error
        else:
            node = failing_node(error, self._node_of_code)
            explained = processing_error(error, node, self._task.origin, self._functions(node))
        raise explained from explained.__cause__

    def _functions(self, node: str | None) -> tuple[Callable[..., Any], ...]:
        found = None if node is None else self._task.topology.node(node)
        if isinstance(found, SinkNode):
            return tuple(f for f in (found.extractor, found.partitioner) if f is not None)
        if isinstance(found, SourceNode):
            return () if found.schedule is None else (found.schedule.emitter,)
        return found.operator.functions if isinstance(found, ProcessorNode) else ()
