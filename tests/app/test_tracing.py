"""Spans of epochs as the real SDK of OpenTelemetry gets them, and the trace context of records on their way."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from penstock import Serdes, StreamsBuilder
from penstock.engine import commit, tracing
from penstock.engine.epoch import STEPS, EpochState
from penstock.errors import BrokerError, ConfigError

START = 1_600_000_020_000
TEXT = {"key": Serdes.string, "value": Serdes.string}


@pytest.fixture
def exported(monkeypatch):
    """The provider of this test: one for the whole process could be set only once."""
    found, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    monkeypatch.setattr(trace, "get_tracer", lambda name: provider.get_tracer(name))
    yield found
    provider.shutdown()


def program(lines, out, counts):
    """Rows that pass, by column; rows that are moved to another key and counted."""
    builder = StreamsBuilder()
    stream = builder.stream(lines, **TEXT)
    stream.map_values(str.upper).to(out, **TEXT)
    stream.group_by(lambda _, value: value, **TEXT).count().to_stream().to(counts, value=Serdes.int64)
    return builder


def producing(tracer):
    """Return a span of a producer, and the headers of a record that it sends."""
    with tracer.start_as_current_span("send") as span:
        headers: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(headers)
    return span.get_span_context(), tuple((name, value.encode()) for name, value in headers.items())


def test_an_epoch_is_a_span_with_its_steps_and_linked_to_the_traces_of_its_records(cluster, start, exported):
    lines, out, counts = cluster.topic("lines"), cluster.topic("out"), cluster.topic("counts")
    one, headers = producing(trace.get_tracer("client"))
    other, others = producing(trace.get_tracer("client"))
    rows = [("k", f"v{n}", START, 0, headers if n == 3 else ()) for n in range(20)]
    cluster.send(lines, *rows, ("k", "v99", START, 0, others))
    exported.clear()
    driven = start(program(lines, out, counts), tracing=True).drain()
    spans = exported.get_finished_spans()
    epoch = next(span for span in spans if span.name.startswith("epoch of"))
    steps = [span for span in spans if span.parent is not None and span.parent.span_id == epoch.context.span_id]
    assert [span.name for span in steps] == [step.value for step in STEPS if step is not EpochState.PUBLISH]
    assert all(epoch.start_time <= span.start_time <= span.end_time <= epoch.end_time for span in steps)
    about = {"penstock.application_id": start.application_id, "penstock.epoch": 1, "penstock.records": 21}
    assert about.items() <= epoch.attributes.items()
    assert epoch.attributes[f"penstock.rows_written.{out}"] == 21
    assert epoch.status.status_code is trace.StatusCode.OK
    assert {link.context.span_id for link in epoch.links} == {one.span_id, other.span_id}
    for topic, keys in ((out, {"V3", "V99"}), (counts, {"v3", "v99"})):
        found = {}
        for record in cluster.read(topic):
            given = {name: value.decode() for name, value in record.headers}
            context = trace.get_current_span(TraceContextTextMapPropagator().extract(given)).get_span_context()
            if context.is_valid:
                found[(record.value if topic == out else record.key).decode()] = context.trace_id
        assert found.keys() == keys, topic
        assert set(found.values()) == {one.trace_id, other.trace_id}
    driven.close()


def test_an_attempt_that_fails_is_a_span_with_its_error(cluster, start, exported, monkeypatch):
    lines, out, counts = cluster.topic("lines"), cluster.topic("out"), cluster.topic("counts")
    driven = start(program(lines, out, counts), tracing=True)
    failing = iter([BrokerError("the broker is away", retriable=True, abortable=True)])
    perform = commit.PERFORM[EpochState.SEND_OFFSETS]

    def once(work):
        for error in failing:
            raise error
        perform(work)

    monkeypatch.setitem(commit.PERFORM, EpochState.SEND_OFFSETS, once)
    cluster.send(lines, ("k", "v", START))
    driven.drain()
    epochs = [span for span in exported.get_finished_spans() if span.name.startswith("epoch of")]
    assert [span.status.status_code.name for span in epochs] == ["ERROR", "OK"]
    assert epochs[0].status.description == "BrokerError: the broker is away"
    step = next(span for span in exported.get_finished_spans() if span.name == EpochState.SEND_OFFSETS)
    assert step.status.status_code is trace.StatusCode.ERROR
    driven.close()


def test_without_the_setting_there_are_no_spans_and_without_the_extra_the_remedy_is_named(exported, monkeypatch):
    tracer = tracing.tracer_for({"tracing": False})
    with tracer.step("commit"):
        pass
    assert exported.get_finished_spans() == ()
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"pip install 'penstock-streams\[otel\]'"):
        tracing.tracer_for({"tracing": True})
