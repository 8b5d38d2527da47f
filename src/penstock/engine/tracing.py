"""Traces of epochs, by OpenTelemetry (setting ``tracing``): a span for each attempt of an epoch, in it one for each step.

Only the interface of OpenTelemetry is used: the program, or ``opentelemetry-instrument``, says where spans go. A record keeps its
headers on its way, and so its trace context (``traceparent``); the span of its epoch is linked to the traces of what the epoch wrote, and
a trace of one record thus leads to the epoch that it was part of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from penstock.engine.work import Work
from penstock.errors import ConfigError
from penstock.masking import scrubbed
from penstock.protocol.envelope import unpack_headers

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext

#: traces that a span is linked to, and rows that are looked at for them
MOST_LINKS, MOST_ROWS = 32, 1_000
TRACE_HEADERS = ("traceparent", "tracestate")


class EpochTracer(Protocol):
    """Follows the attempts of an epoch."""

    def begin(self, work: Work) -> None:
        """Called when an attempt begins."""

    def step(self, name: str) -> AbstractContextManager[None]:
        """Cover a step of it."""

    def committed(self, work: Work, records: int, kind: str) -> None:
        """Called when the attempt was committed."""

    def failed(self, error: BaseException) -> None:
        """Called when the attempt failed."""


class NoTracer:
    """Without the setting nothing is traced."""

    def begin(self, work: Work) -> None:
        """Do nothing."""

    def step(self, name: str) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def committed(self, work: Work, records: int, kind: str) -> None:
        """Do nothing."""

    def failed(self, error: BaseException) -> None:
        """Do nothing."""


class OpenTelemetryTracer:
    """Makes the spans. One thread: the loop's."""

    def __init__(self) -> None:
        from opentelemetry import trace

        self._trace = trace
        self._tracer = trace.get_tracer("penstock")
        self._span: Span | None = None

    def begin(self, work: Work) -> None:
        """Begin the span of an attempt."""
        self._end()
        about: dict[str, str | int] = {
            "penstock.application_id": work.application_id,
            "penstock.epoch": work.request.epoch,
            "penstock.attempt": work.request.token,
            "penstock.partitions": len(work.ranges),
        }
        self._span = self._tracer.start_span(f"epoch of {work.application_id}", attributes=about)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Cover a step by a span below that of its attempt; it is the current one meanwhile."""
        if self._span is None:
            yield
            return
        with self._tracer.start_as_current_span(name, self._trace.set_span_in_context(self._span)):
            yield

    def committed(self, work: Work, records: int, kind: str) -> None:
        """End the span of the attempt, with what it read and wrote."""
        if self._span is None:
            return
        rows = {f"penstock.rows_written.{topic}": count for topic, count in work.written.items()}
        self._span.set_attributes({"penstock.kind": kind, "penstock.records": records, **rows})
        for linked in islice(self._traces(work), MOST_LINKS):
            self._span.add_link(linked)
        self._span.set_status(self._trace.StatusCode.OK)
        self._end()

    def failed(self, error: BaseException) -> None:
        """End the span of the attempt with its error; there is no span if no input had been chosen."""
        if self._span is not None:
            message = scrubbed(f"{type(error).__name__}: {error}")
            self._span.set_status(self._trace.StatusCode.ERROR, message)
            self._end()

    def _end(self) -> None:
        if self._span is not None:
            self._span.end()
            self._span = None

    def _traces(self, work: Work) -> Iterator[SpanContext]:
        """Yield the trace contexts of rows that were written, each once."""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        seen: set[tuple[int, int]] = set()
        for headers in islice(_headers(work), MOST_ROWS):
            context = TraceContextTextMapPropagator().extract(headers)
            found = self._trace.get_current_span(context).get_span_context()
            if found.is_valid and (found.trace_id, found.span_id) not in seen:
                seen.add((found.trace_id, found.span_id))
                yield found


def _headers(work: Work) -> Iterator[Mapping[str, str]]:
    """Yield the headers of rows that say a trace context."""
    if work.rows is None:
        return
    for batch in work.rows.to_batches():
        column = batch["headers"]
        if column.null_count == len(column):
            continue
        for packed in column.drop_null().to_pylist():
            given = dict(unpack_headers(packed))
            if TRACE_HEADERS[0] in given:
                with suppress(UnicodeDecodeError):
                    yield {name: (given[name] or b"").decode() for name in TRACE_HEADERS if name in given}


def tracer_for(config: Mapping[str, Any]) -> EpochTracer:
    """Return what traces the epochs of an application; raise if OpenTelemetry is asked for and not there."""
    if not config["tracing"]:
        return NoTracer()
    try:
        return OpenTelemetryTracer()
    except ImportError as error:
        raise ConfigError(
            "tracing needs OpenTelemetry's interface: pip install 'penstock-streams[otel]', or set tracing=False"
        ) from error
