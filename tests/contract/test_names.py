"""Every name of the public contract is where it says, and takes what it says."""

import inspect
from typing import Any

import pytest

import penstock
import penstock.testing
from penstock import (
    Buffer,
    CogroupedKStream,
    EmitStrategy,
    FixedKeyProcessor,
    JoinWindows,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Processor,
    ProcessorContext,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    UnlimitedWindows,
    WindowedKStream,
)
from penstock.testing import TopologyTestDriver

# (where, name, positional parameters in order, keyword parameters)
SIGNATURES: list[tuple[Any, str, list[str], set[str]]] = [
    (StreamsBuilder, "stream", ["topics"], {"key", "value", "timestamp", "offset_reset", "watermark", "late", "name"}),
    (StreamsBuilder, "table", ["topic"], {"key", "value", "timestamp", "offset_reset", "store", "name"}),
    (StreamsBuilder, "global_table", ["topic"], {"key", "value", "timestamp", "store", "name"}),
    (StreamsBuilder, "add_state_store", ["spec"], set()),
    (StreamsBuilder, "add_global_store", ["spec", "topic", "processor"], {"key", "value", "timestamp"}),
    (StreamsBuilder, "build", [], {"optimize"}),
    (KStream, "filter", [1], {"name"}),
    (KStream, "filter_not", [1], {"name"}),
    (KStream, "select_key", [1], {"name"}),
    (KStream, "map", [1], {"name"}),
    (KStream, "map_values", [1], {"with_key", "name"}),
    (KStream, "flat_map", [1], {"name"}),
    (KStream, "flat_map_values", [1], {"with_key", "name"}),
    (KStream, "foreach", [1], {"name"}),
    (KStream, "peek", [1], {"name"}),
    (KStream, "print", [], {"label", "file"}),
    (KStream, "split", [], {"name"}),
    (KStream, "merge", ["other"], {"name"}),
    (KStream, "repartition", [], {"key", "value", "partitions", "partitioner", "name"}),
    (KStream, "to", [1], {"key", "value", "partitioner", "name"}),
    (KStream, "to_table", [], {"key", "value", "store", "name"}),
    (KStream, "group_by_key", [], {"key", "value", "name"}),
    (KStream, "group_by", [1], {"key", "value", "name"}),
    (
        KStream,
        "join",
        ["other", "joiner"],
        {"window", "key", "value", "other_value", "store", "name", "grace", "select", "with_key"},
    ),
    (
        KStream,
        "left_join",
        ["other", "joiner"],
        {"window", "key", "value", "other_value", "store", "name", "grace", "select", "with_key"},
    ),
    (
        KStream,
        "outer_join",
        ["other", "joiner"],
        {"window", "key", "value", "other_value", "store", "name", "with_key"},
    ),
    (KStream, "process", ["supplier"], {"stores", "name"}),
    (KStream, "process_values", ["supplier"], {"stores", "name"}),
    (KStream, "deduplicate", [], {"by", "within", "store"}),
    (
        KStream,
        "map_values_async",
        [1],
        {"concurrency", "timeout", "retries", "backoff", "with_key", "value", "name"},
    ),
    (KTable, "filter", [1], {"store", "name"}),
    (KTable, "filter_not", [1], {"store", "name"}),
    (KTable, "map_values", [1], {"with_key", "store", "name"}),
    (KTable, "transform_values", ["supplier"], {"stores", "store", "name"}),
    (KTable, "to_stream", [], {"key", "name"}),
    (KTable, "suppress", [1], {"name"}),
    (KTable, "group_by", [1], {"key", "value", "name"}),
    (KTable, "join", ["other", "joiner"], {"foreign_key", "store", "name"}),
    (KTable, "left_join", ["other", "joiner"], {"foreign_key", "store", "name"}),
    (KTable, "outer_join", ["other", "joiner"], {"store", "name"}),
    (KGroupedStream, "count", [], {"store", "name", "key", "value"}),
    (KGroupedStream, "reduce", [1], {"store", "name", "key", "value"}),
    (KGroupedStream, "aggregate", [1, 1], {"store", "name", "key", "value"}),
    (KGroupedStream, "windowed_by", [1], set()),
    (KGroupedStream, "cogroup", [1], set()),
    (KGroupedTable, "count", [], {"store", "name", "key", "value"}),
    (KGroupedTable, "reduce", ["adder", "subtractor"], {"store", "name", "key", "value"}),
    (KGroupedTable, "aggregate", [1, "adder", "subtractor"], {"store", "name", "key", "value"}),
    (CogroupedKStream, "cogroup", ["grouped", 1], set()),
    (CogroupedKStream, "aggregate", [1], {"store", "name", "key", "value"}),
    (CogroupedKStream, "windowed_by", [1], set()),
    (WindowedKStream, "count", [], {"store", "name", "key", "value"}),
    (WindowedKStream, "reduce", [1], {"store", "name", "key", "value"}),
    (WindowedKStream, "aggregate", [1, 1], {"merger", "store", "name", "key", "value"}),
    (WindowedKStream, "emit", [1], set()),
    (TimeWindows, "__init__", ["size"], {"advance", "grace"}),
    (SlidingWindows, "__init__", ["difference"], {"grace"}),
    (SessionWindows, "__init__", ["gap"], {"grace"}),
    (UnlimitedWindows, "__init__", [], {"start"}),
    (JoinWindows, "__init__", ["difference"], {"before", "after", "grace"}),
    (Suppressed, "until_window_closes", [], {"buffer"}),
    (Suppressed, "until_time_limit", ["wait", "buffer"], set()),
    (Stores, "key_value", ["name"], {"persistent", "logged", "cached", "ttl", "key", "value"}),
    (
        Stores,
        "window",
        ["name", "retention", "size"],
        {"retain_duplicates", "persistent", "logged", "cached", "key", "value"},
    ),
    (Stores, "session", ["name", "retention"], {"persistent", "logged", "cached", "key", "value"}),
    (Stores, "versioned", ["name", "history"], {"persistent", "logged", "key", "value"}),
    (Stores, "lru", ["name", "max_entries"], {"logged", "key", "value"}),
    (Stores, "shared", ["name"], {"key", "value"}),
    (Stores, "timers", ["name"], set()),
    (Topology, "add_source", ["name", "topics"], {"key", "value", "timestamp", "offset_reset"}),
    (Topology, "describe", [], set()),
    (Topology, "to_mermaid", [], set()),
    (ProcessorContext, "forward", ["record"], {"child"}),
    (ProcessorContext, "schedule", ["every", 1, 1], {"start"}),
    (ProcessorContext, "store", ["name"], set()),
    (ProcessorContext, "view", ["name"], set()),
    (ProcessorContext, "commit", [], set()),
    (TopologyTestDriver, "__init__", [1], {"config", "lanes", "partitions", "start"}),
    (TopologyTestDriver, "input_topic", ["name"], {"key", "value"}),
    (TopologyTestDriver, "output_topic", ["name"], {"key", "value"}),
    (TopologyTestDriver, "advance_wall_clock", ["ms"], set()),
    (TopologyTestDriver, "store", ["name"], set()),
    (TopologyTestDriver, "topics", [], set()),
    (TopologyTestDriver, "metrics", [], set()),
    (TopologyTestDriver, "commit", [], set()),
]


@pytest.mark.parametrize(
    ("owner", "method", "positional", "keywords"), SIGNATURES, ids=[f"{o.__name__}.{m}" for o, m, _, _ in SIGNATURES]
)
def test_a_method_takes_what_the_contract_says(owner, method, positional, keywords):
    function = inspect.getattr_static(owner, method)
    signature = inspect.signature(getattr(function, "__func__", function))
    given = [p for n, p in signature.parameters.items() if n not in ("self", "cls")]
    in_order = [p.name for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for index, name in enumerate(positional):
        assert len(in_order) > index, signature
        if isinstance(name, str):
            assert in_order[index] == name, signature
    takes = {p.name for p in given if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    assert keywords <= takes, keywords - takes
    required = {p.name for p in given if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    assert not required & keywords - {"by", "within"}, required


def test_everything_exported_exists_and_says_what_it_is():
    for module in (penstock, penstock.testing):
        for name in module.__all__:
            assert inspect.getdoc(getattr(module, name)), name


def test_every_public_method_is_documented():
    members = [getattr(penstock, name) for name in penstock.__all__]
    public = [(m, name) for m in members if inspect.isclass(m) for name in vars(m) if not name.startswith("_")]
    missing = [
        f"{m.__name__}.{name}"
        for m, name in public
        if callable(getattr(m, name)) and not inspect.getdoc(getattr(m, name))
    ]
    assert missing == []


def test_the_serdes_of_the_contract():
    for name in [
        "string",
        "bytes",
        "int32",
        "int64",
        "float32",
        "float64",
        "boolean",
        "uuid",
        "json",
        "void",
        "json_of",
        "pickle",
        "windowed",
        "session_windowed",
    ]:
        assert hasattr(Serdes, name)


def test_other_names():
    assert EmitStrategy.on_window_update != EmitStrategy.on_window_close
    assert all([Buffer.max_records(1), Buffer.max_bytes(1), Buffer.unbounded()])
    assert {"init", "process", "close"} <= set(dir(Processor))
    assert {"init", "process", "close"} <= set(dir(FixedKeyProcessor))
    assert {"key", "value", "timestamp", "headers"} <= set(inspect.signature(Record).parameters)
    for name in ("timers", "record_metadata", "application_id", "stream_time", "system_time", "is_late"):
        assert hasattr(ProcessorContext, name)
    assert hasattr(Topology, "_repr_html_")
    assert "auto_commit" in inspect.signature(TopologyTestDriver).parameters or hasattr(
        TopologyTestDriver, "auto_commit"
    )
