"""The public interface as data: every method takes what the contract says, by these names, with these defaults."""

import ast
import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import penstock
from penstock import sql
from penstock.admin.asgi import make_asgi
from penstock.admin.routes import ENDPOINTS, PAGE
from penstock.cli.app import app as commands
from penstock.config import SETTINGS
from penstock.processor.context import FixedKeyProcessorContext, ProcessorContext
from penstock.processor.timers import TimerService
from penstock.processor.user_metrics import NodeMetrics
from penstock.query.routing import KeyMetadata
from penstock.testing import TopologyTestDriver
from penstock.testing.topics import InputTopic, OutputTopic

#: what is before ``*`` may be given by position; a name that begins with _ is only a place; there may be more options
CONTRACT = """
StreamsBuilder()
StreamsBuilder.stream(topics, *, key=Serdes.string, value=Serdes.json, timestamp=None, offset_reset=None,
    watermark=None, late=None, name=None)
StreamsBuilder.table(topic, *, key=Serdes.string, value=Serdes.json, timestamp=None, offset_reset=None, store=None,
    name=None)
StreamsBuilder.global_table(topic, *, key=Serdes.string, value=Serdes.json, timestamp=None, store=None, name=None)
StreamsBuilder.add_state_store(spec)
StreamsBuilder.add_global_store(spec, topic, processor, *, key=Serdes.string, value=Serdes.json, timestamp=None)
StreamsBuilder.scheduled(every_or_cron, emitter, *, key=Serdes.string, value=Serdes.json, name=None)
StreamsBuilder.build(*, optimize=())
KStream.filter(p, *, name=None)
KStream.filter_not(p, *, name=None)
KStream.select_key(f, *, name=None)
KStream.map(f, *, name=None)
KStream.map_values(f, *, with_key=False, name=None)
KStream.flat_map(f, *, name=None)
KStream.flat_map_values(f, *, with_key=False, name=None)
KStream.foreach(f, *, name=None)
KStream.peek(f, *, name=None)
KStream.print(label=None, file=None)
KStream.split(name=None)
BranchedKStream.branch(p, name=None)
BranchedKStream.default(name=None)
BranchedKStream.no_default()
KStream.merge(other, *, name=None)
KStream.repartition(*, key=None, value=None, partitions=None, partitioner=None, name=None)
KStream.to(topic_or_extractor, *, key=None, value=None, partitioner=None, name=None)
KStream.to_table(*, key=None, value=None, store=None, name=None)
KStream.group_by_key(*, key=None, value=None, name=None)
KStream.group_by(f, *, key=None, value=None, name=None)
KStream.join(other, joiner, *, window=None, grace=None, select=None, with_key=False, key=None, value=None,
    other_value=None, store=None, name=None)
KStream.left_join(other, joiner, *, window=None, grace=None, select=None, with_key=False, key=None, value=None,
    other_value=None, store=None, name=None)
KStream.outer_join(other, joiner, *, window=None, with_key=False, key=None, value=None, other_value=None, store=None,
    name=None)
KStream.process(supplier, *, stores=(), name=None)
KStream.process_values(supplier, *, stores=(), name=None)
KStream.map_values_async(f, *, concurrency=64, timeout=None, retries=0, with_key=False)
KStream.deduplicate(*, by, within, store=None)
KTable.filter(p, *, store=None, name=None)
KTable.filter_not(p, *, store=None, name=None)
KTable.map_values(f, *, with_key=False, store=None, name=None)
KTable.transform_values(supplier, stores=(), *, store=None, name=None)
KTable.to_stream(key=None)
KTable.suppress(_suppressed)
KTable.group_by(f, *, key=None, value=None, name=None)
KTable.join(other, joiner, *, foreign_key=None, store=None, name=None)
KTable.left_join(other, joiner, *, foreign_key=None, store=None, name=None)
KTable.outer_join(other, joiner, *, store=None, name=None)
KGroupedStream.count(*, store=None, name=None, key=None, value=None)
KGroupedStream.reduce(f, *, store=None, name=None, key=None, value=None)
KGroupedStream.aggregate(init, f, *, store=None, name=None, key=None, value=None)
KGroupedStream.windowed_by(w)
KGroupedStream.cogroup(f)
KGroupedTable.count(*, store=None, name=None, key=None, value=None)
KGroupedTable.reduce(adder, subtractor, *, store=None, name=None, key=None, value=None)
KGroupedTable.aggregate(init, adder, subtractor, *, store=None, name=None, key=None, value=None)
CogroupedKStream.cogroup(grouped, f)
CogroupedKStream.aggregate(init, *, merger=None, store=None, name=None, key=None, value=None)
CogroupedKStream.windowed_by(w)
WindowedKStream.count(*, store=None, name=None, key=None, value=None)
WindowedKStream.reduce(f, *, store=None, name=None, key=None, value=None)
WindowedKStream.aggregate(init, f, merger=None, *, store=None, name=None, key=None, value=None)
WindowedKStream.emit(_strategy)
Windowed(key, start, end)
TimeWindows(size, advance=None, grace=0)
SlidingWindows(difference, grace=0)
SessionWindows(gap, grace=0)
UnlimitedWindows(start=0)
JoinWindows(difference, before=None, after=None, grace=0)
Suppressed.until_window_closes(buffer=None)
Suppressed.until_time_limit(wait, buffer=None)
Buffer.max_records(_n)
Buffer.max_bytes(_n)
Buffer.unbounded()
Buffer.shut_down_when_full()
Buffer.emit_early_when_full()
Stores.key_value(name, *, persistent=None, logged=True, cached=None, ttl=None, key=None, value=None)
Stores.window(name, retention, size, retain_duplicates=False, *, persistent=None, logged=True, cached=None, key=None,
    value=None)
Stores.session(name, retention, *, persistent=None, logged=True, cached=None, key=None, value=None)
Stores.versioned(name, history, *, persistent=None, logged=True, key=None, value=None)
Stores.lru(name, max_entries, *, logged=True, key=None, value=None)
Stores.shared(name, *, persistent=None, logged=True, ttl=None, key=None, value=None)
Stores.timers(name, *, persistent=None, logged=True, key=None)
Serde(serialize, deserialize)
Serdes.json_of(_type)
Serdes.avro(schema, registry=None)
Serdes.protobuf(message, registry=None)
Serdes.windowed(inner, size)
Serdes.session_windowed(inner)
WatermarkStrategy.monotonic()
WatermarkStrategy.bounded(out_of_orderness)
WatermarkStrategy.custom(f)
WatermarkStrategy.idle_after(duration)
Topology.add_source(name, topics, *, key=Serdes.string, value=Serdes.json, timestamp=None, offset_reset=None)
Topology.add_processor(name, supplier, *parents)
Topology.add_sink(name, topic_or_extractor, *parents, key=Serdes.string, value=Serdes.json, partitioner=None)
Topology.add_state_store(spec, *processors)
Topology.connect(processor, *stores)
Topology.describe()
Topology.to_mermaid()
Topology._repr_html_()
Processor.init(context)
Processor.process(record)
Processor.close()
FixedKeyProcessor.init(context)
FixedKeyProcessor.process(record)
FixedKeyProcessor.close()
Processor.on_timer(_ts, key, context)
ProcessorContext.forward(record, child=None)
ProcessorContext.schedule(every, _kind, f, start=None)
ProcessorContext.store(name)
ProcessorContext.view(name)
ProcessorContext.commit()
ProcessorContext.resource(name, make, close=None)
Cancellable.cancel()
TimerService.register_event_time(key, _ts)
TimerService.register_processing_time(key, _ts)
TimerService.delete_event_time(key, _ts)
TimerService.delete_processing_time(key, _ts)
NodeMetrics.counter(name)
NodeMetrics.gauge(name)
NodeMetrics.histogram(name)
Record(key, value, timestamp, headers=())
Record.with_key(key)
Record.with_value(value)
Record.with_timestamp(timestamp)
Record.with_headers(headers)
App(topology_or_builder, *, application_id=None, bootstrap_servers=None, spark=None, **config)
App.run()
App.start()
App.close(timeout=60_000)
App.pause()
App.resume()
App.on_state_change(f)
App.on_restore(f)
App.store(name)
App.query(store, query, *, at_least=None, wait_ms=0)
App.snapshot()
App.metadata_for_key(store, key)
App.metrics()
App.reset()
App.health_check(group="ready")
App.mount(path, asgi_app)
KeyQuery(key)
RangeQuery(lower=None, upper=None, *, reverse=False)
PrefixQuery(prefix)
TimestampedKeyQuery(key)
TimestampedRangeQuery(lower=None, upper=None, *, reverse=False)
WindowKeyQuery(key, since, until)
WindowRangeQuery(since, until)
SessionQuery(key)
VersionedKeyQuery(key, as_of=None)
MultiVersionedKeyQuery(key, since=None, until=None, *, reverse=False)
Snapshot.store(name)
Snapshot.query(store, query)
Snapshot.close()
sql.frame(spark, application_id, store, *, bootstrap_servers, kafka=None, key=None, value=None)
TopologyTestDriver(topology_or_builder, *, config=None, lanes=1, shards=16, partitions=1, start=0,
    keep_processors=False, auto_commit=True)
TopologyTestDriver.input_topic(name, *, key=Serdes.string, value=Serdes.json)
TopologyTestDriver.output_topic(name, *, key=None, value=None)
TopologyTestDriver.advance_wall_clock(ms)
TopologyTestDriver.store(name)
TopologyTestDriver.topics()
TopologyTestDriver.metrics()
TopologyTestDriver.commit()
InputTopic.pipe(key, value, timestamp=None, headers=(), partition=0)
InputTopic.pipe_all(pairs, start=None, step=0)
OutputTopic.read()
OutputTopic.read_all()
OutputTopic.read_values()
OutputTopic.read_table()
"""
NAMES = {
    **{name: getattr(penstock, name) for name in penstock.__all__},
    "BranchedKStream": type(penstock.StreamsBuilder().stream("t").split()),
    "InputTopic": InputTopic,
    "NodeMetrics": NodeMetrics,
    "OutputTopic": OutputTopic,
    "TimerService": TimerService,
    "TopologyTestDriver": TopologyTestDriver,
    "sql": sql,
}


class Parameter(NamedTuple):
    """One parameter of the contract."""

    name: str
    by_position: bool
    default: Any = inspect.Parameter.empty


def parameters(line: str) -> Iterator[Parameter]:
    """Yield what a line of the contract says of parameters."""
    arguments = ast.parse(f"def f({line.partition('(')[2]}: ...").body[0].args  # type: ignore[attr-defined]
    missing = [None] * (len(arguments.args) - len(arguments.defaults))
    for each, default in zip(arguments.args, [*missing, *arguments.defaults], strict=True):
        yield Parameter(each.arg, True, *_value(default))
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield Parameter(each.arg, False, *_value(default))
    if arguments.vararg is not None:
        yield Parameter(f"*{arguments.vararg.arg}", True)


def _value(default: ast.expr | None) -> list[Any]:
    return [] if default is None else [eval(ast.unparse(default), {"Serdes": penstock.Serdes})]


@pytest.mark.parametrize(
    "line", CONTRACT.replace("\n    ", " ").strip().splitlines(), ids=lambda line: line.partition("(")[0]
)
def test_it_takes_what_the_contract_says(line):
    owner, _, method = line.partition("(")[0].partition(".")
    found = getattr(NAMES[owner], method) if method else NAMES[owner]
    there = [p for p in inspect.signature(found).parameters.values() if p.name != "self"]
    in_order = [p for p in there if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = {p.name: p for p in there if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    wanted = list(parameters(line))
    for index, each in enumerate(wanted):
        if each.name.startswith("*"):
            assert any(p.kind is p.VAR_POSITIONAL and p.name == each.name[1:] for p in there)
            continue
        if each.by_position:
            assert each.name.startswith("_") or in_order[index].name == each.name
            parameter = in_order[index]
        else:
            parameter = named[each.name]
        assert parameter.default == each.default, parameter
    known = {each.name for each in wanted} | {p.name for p in in_order[: len(wanted)]}
    others = [p for p in there if p.name not in known and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    assert [p.name for p in others if p.default is p.empty] == [], "there is more that must be given"


def test_attributes_of_the_contract():
    assert {"key", "value", "timestamp", "headers"} <= set(dir(penstock.Record))
    context = "timers record_metadata application_id stream_time system_time is_late config metrics forward"
    for each in (ProcessorContext, FixedKeyProcessorContext):
        assert set(context.split()) <= set(dir(each))
    assert {"value", "found", "epoch", "position", "__iter__"} <= set(dir(penstock.QueryResult))
    assert {"epoch", "position", "__enter__"} <= set(dir(penstock.Snapshot))
    assert {"shard", "lane"} <= set(KeyMetadata._fields)
    app = penstock.App(penstock.StreamsBuilder(), application_id="a")
    assert app.state == "CREATED"
    assert list(app.hooks) == ["PRE_START", "POST_START", "PRE_STOP", "POST_STOP"] == list(penstock.Hook)
    serdes = "string bytes int32 int64 float32 float64 boolean uuid json void pickle"
    assert all(isinstance(getattr(penstock.Serdes, name), penstock.Serde) for name in serdes.split())
    assert [policy.name for policy in penstock.LatePolicy] == ["accept", "drop", "dead_letter"]
    assert {each.name for each in penstock.EmitStrategy} == {"on_window_update", "on_window_close"}
    assert penstock.StreamsBuilder().table("t", store="rows").queryable_store_name == "rows"
    with TopologyTestDriver(penstock.StreamsBuilder()) as driver:
        assert driver.auto_commit is True


#: settings of the contract, with the defaults that it says
SETTINGS_OF_THE_CONTRACT = {
    "application_id": None,
    "bootstrap_servers": "localhost:9092",
    "master": "local[*]",
    "processing_guarantee": "exactly_once",
    "lanes": None,
    "shards": 16,
    "commit_interval_ms": 100,
    "max_epoch_records": 1_000_000,
    "state_dir": None,
    "replication_factor": -1,
    "kafka": {},
    "admin": None,
    "cache_max_bytes": None,
    "max_task_idle_ms": 0,
    "task_timeout_ms": 900_000,
    "on_uncaught_error": "shutdown",
    "inline_epoch_records": 20_000,
    "log_format": "text",
    "metrics_names": "penstock",
    "on_deserialization_error": "fail",
    "on_processing_error": "fail",
    "on_production_error": "fail",
    "dead_letter_topic": None,
    "user_config": {},
}


def test_the_settings_have_their_names_and_defaults():
    found = {row.name: row.default for row in SETTINGS}
    assert {name: found[name] for name in SETTINGS_OF_THE_CONTRACT} == SETTINGS_OF_THE_CONTRACT


STORE = "/v1/stores/{store}"
#: path → parameters of the query
ROUTES = {
    "GET /health/live": "",
    "GET /health/ready": "",
    "GET /livez": "",
    "GET /readyz": "",
    "GET /metrics": "",
    "GET /v1/info": "",
    "GET /v1/config": "",
    "GET /v1/topology": "format",
    "GET /v1/state": "",
    "GET /v1/watermarks": "",
    "GET /v1/offsets": "",
    "GET /v1/epochs": "",
    "GET /v1/errors": "",
    "GET /debug/threads": "",
    "GET /debug/barriers": "",
    "POST /v1/pause": "",
    "POST /v1/resume": "",
    "PUT /v1/loggers/{name}": "",
    "GET /v1/events": "",
    "GET /": "",
    "GET /topology": "format",
    "GET /state": "",
    "GET /watermarks": "",
    "GET /v1/stores": "position min_epoch wait_ms",
    f"GET {STORE}": "position min_epoch wait_ms",
    f"GET {STORE}/keys/{{key}}": "key_json position min_epoch wait_ms",
    f"GET {STORE}/keys": "key_json position min_epoch wait_ms",
    f"GET {STORE}/range": "from to reverse limit cursor position min_epoch wait_ms",
    f"GET {STORE}/prefix/{{prefix}}": "limit cursor position min_epoch wait_ms",
    f"GET {STORE}/windows/{{key}}": "from to limit cursor position min_epoch wait_ms",
    f"GET {STORE}/sessions/{{key}}": "limit cursor position min_epoch wait_ms",
    f"GET {STORE}/versions/{{key}}": "as_of limit cursor position min_epoch wait_ms",
    f"GET {STORE}/changes": "snapshot since",
}


def test_the_routes_have_their_paths_and_parameters():
    found = {}
    for endpoint in (*ENDPOINTS, *PAGE):
        for path in (endpoint.path, *endpoint.aliases):
            found[f"{endpoint.method} {path.replace(':path', '')}"] = {each.name for each in endpoint.parameters}
    assert {route for route, names in ROUTES.items() if not set(names.split()) <= found.get(route, set())} - {
        "GET /"
    } == set()
    assert "GET /" in found
    app = penstock.App(penstock.StreamsBuilder(), application_id="a")
    routes = {(route.path, method) for route in make_asgi(app, lambda: None, {}).routes for method in route.methods}
    assert {("/health/live", "HEAD"), ("/readyz", "HEAD"), ("/openapi.json", "GET")} <= routes


#: command → its options
COMMANDS = {
    "run": "",
    "topology": "--format",
    "dev": "--port --fresh",
    "demo": "",
    "produce": "",
    "consume": "",
    "query": "",
    "status": "",
    "reset": "",
    "doctor": "",
    "bench": "",
    "topics list": "",
    "topics create": "",
    "topics delete": "",
    "topics describe": "",
    "dead-letters list": "",
    "dead-letters show": "",
    "dead-letters redrive": "",
    "config": "",
    "version": "",
    "init": "",
}


def options_of(group: Any, before: str = "") -> dict[str, dict[str, Any]]:
    """Return the options of all commands, by the words that call them."""
    found: dict[str, dict[str, Any]] = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found |= options_of(command, f"{before}{name} ")
        else:
            found[before + name] = {text: option for option in command.params for text in option.opts}
    return found


def test_the_commands_have_their_options_and_every_one_prints_json():
    import typer

    found = options_of(typer.main.get_command(commands))
    for command, options in COMMANDS.items():
        assert set(options.split()) <= found[command].keys(), command
    assert [
        command for command, options in found.items() if "--json" not in options or not options["--json"].is_flag
    ] == []
