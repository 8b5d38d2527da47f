"""Run one topology on the real Kafka Streams and on Penstock, and compare everything that can be seen.

    from compare import check

    def word_count(builder):
        (builder.stream("lines", value=Serdes.string)
            .flat_map_values(str.split)
            .group_by(lambda _, word: word, key=Serdes.string, value=Serdes.string)
            .count(store="counts")
            .to_stream()
            .to("counts", value=Serdes.int64))

    check(
        word_count,
        [("lines", None, "a b a", 0), ("lines", None, "b", 5)],
        inputs={"lines": (Serdes.string, Serdes.string)},
    )

`check` is `assert_equal(run_both(...))`. The topology function is given either side's builder; it may also *return* a
topology (`builder.build(...)`, or one made by hand with `topology_class(builder)()`), else `build(optimize=...)` is
called.

A script is a list of steps: `(topic, key, value, timestamp)`, with headers as a fifth or not, or `("wall_clock", ms)`.
Keys and values are typed by `inputs` (topic -> (key serde, value serde)) and turned to bytes by Kafka's serializers;
both sides are given the same bytes. A topic that `inputs` does not name takes bytes as they are.

Compared: every record of every topic (bytes of key and value, timestamp, headers, order within the topic), the contents
of every store, the text of `describe()`, and, if a step fails, that it fails on both sides. Switches of `assert_equal`
leave out `changelogs`, `repartitions`, `stores`, `describe` or `headers`.

What a driver must offer besides the public interface (both drivers do):

    all_output()          dict: topic -> list of (key bytes or None, value bytes or None, timestamp, headers) since the
                          start, internal topics included under their full names;
                          headers are a tuple of (str, bytes or None). Kafka gives no timestamp (None) where it
                          leaves it to the producer's clock (deletes of a suppress buffer): any is then accepted
    store_contents(name)  list of rows, in any order; None for a store that cannot be listed:
                            key-value   (key, value)                 timestamped   (key, value, timestamp)
                            window      (key, start, value)          timestamped   (key, start, value, timestamp)
                            session     (key, start, end, value)
                            versioned   (key, value, timestamp, valid_to or None), each version but tombstones

The application id on both sides is `conformance`; lanes, shards and partitions are 1, and processors are kept, as in
Kafka's driver. Kafka's DSL stores are held in memory unless `in_memory=False`: a driver then opens in 3 ms instead of
13 ms. Give False where retention matters: in-memory window stores drop what is expired at once, persistent ones (the
default of Kafka and of Penstock) by segments.
"""

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import oracle
from oracle.convert import java_errors, serialize

from penstock.state.spec import StoreKind

Step = tuple[Any, ...]
Inputs = dict[str, tuple[Any, Any]]


@dataclass
class Run:
    """What one side did. `failed` is the step that raised (-1: the topology was refused), `error` what it raised."""

    output: dict[str, list[Any]] = field(default_factory=dict)
    stores: dict[str, list[Any] | None] = field(default_factory=dict)
    describe: str = ""
    failed: int | None = None
    error: Exception | None = None
    #: stores that keep versions, as Penstock knows them
    versioned: frozenset[str] = frozenset()


@dataclass
class Side:
    """How to run a topology on one side."""

    name: str
    builder: Callable[[], Any]
    driver: Callable[..., Any]
    topology: Any


@dataclass
class Both:
    """Two runs of one script, and how to run it again."""

    kafka: Run
    penstock: Run
    script: Sequence[Step]
    again: Callable[[Sequence[Step]], tuple[Run, Run]]


def kafka_side(in_memory: bool = True) -> Side:
    """The real Kafka Streams."""

    def driver(topology: Any, config: dict[str, Any]) -> Any:
        return oracle.TopologyTestDriver(topology, config=config, in_memory=in_memory)

    return Side("kafka", oracle.StreamsBuilder, driver, oracle.Topology)


def penstock_side() -> Side:
    """Penstock, imported when it is first needed."""
    from penstock import StreamsBuilder, Topology
    from penstock.testing import TopologyTestDriver

    def driver(topology: Any, config: dict[str, Any]) -> Any:
        ours = {name: value for name, value in config.items() if "." not in name}  # dotted names are Kafka's own
        config = {"application_id": oracle.APPLICATION_ID, **ours}
        return TopologyTestDriver(topology, config=config, shards=1, keep_processors=True)

    return Side("penstock", StreamsBuilder, driver, Topology)


def topology_class(builder: Any) -> Any:
    """The Topology class of the side that a builder belongs to, for topologies of the Processor API made by hand."""
    if isinstance(builder, oracle.StreamsBuilder):
        return oracle.Topology
    from penstock import Topology

    return Topology


def run_both(topology_fn: Callable[[Any], Any], script: Sequence[Step], *, inputs: Inputs,
             config: dict[str, Any] | None = None, optimize: Iterable[str] = (), in_memory: bool = True,
             subject: Side | None = None) -> Both:  # fmt: skip
    """Run the script on Kafka Streams and on Penstock (or on another `subject`)."""
    oracle.start()
    sides = (kafka_side(in_memory), subject or penstock_side())

    def again(steps: Sequence[Step]) -> tuple[Run, Run]:
        raw = [_raw(step, inputs) for step in steps]
        kafka = _run(sides[0], topology_fn, raw, config or {}, tuple(optimize))
        names = [name for name, rows in kafka.stores.items() if rows is not None]
        return kafka, _run(sides[1], topology_fn, raw, config or {}, tuple(optimize), names)

    return Both(*again(script), script, again)


def check(topology_fn: Callable[[Any], Any], script: Sequence[Step], *, inputs: Inputs,
          config: dict[str, Any] | None = None, optimize: Iterable[str] = (), in_memory: bool = True,
          subject: Side | None = None, **what: bool) -> Both:  # fmt: skip
    """Run both and assert that they are equal; `what` are the switches of `assert_equal`."""
    both = run_both(
        topology_fn, script, inputs=inputs, config=config, optimize=optimize, in_memory=in_memory, subject=subject
    )
    assert_equal(both, **what)
    return both


def assert_equal(both: Both, *, changelogs: bool = True, repartitions: bool = True, stores: bool = True,
                 describe: bool = True, headers: bool = True) -> None:  # fmt: skip
    """Fail with a short diff that names the first step after which the two sides differ."""
    switches = {
        "changelogs": changelogs,
        "repartitions": repartitions,
        "stores": stores,
        "describe": describe,
        "headers": headers,
    }
    difference = _difference(both.kafka, both.penstock, **switches)
    if difference is None:
        return
    at = _first_step(both, switches)
    raise AssertionError("\n".join(["Penstock differs from Kafka Streams", *_where(both, at, switches, difference)]))


# --- running --------------------------------------------------------------------------------------------------------


def _raw(step: Step, inputs: Inputs) -> Step:
    if step[0] == "wall_clock":
        return step
    topic, key, value, timestamp, *rest = step
    key_serde, value_serde = inputs.get(topic, (None, None))
    return (topic, _bytes(topic, key, key_serde), _bytes(topic, value, value_serde), timestamp, *rest)


def _bytes(topic: str, value: Any, serde: Any) -> bytes | None:
    if value is None or serde is None:
        return value
    return serialize(serde, topic, value)


def _run(side: Side, topology_fn: Callable[[Any], Any], steps: Sequence[Step], config: dict[str, Any],
         optimize: tuple[str, ...], names: list[str] | None = None) -> Run:  # fmt: skip
    try:
        with java_errors():
            builder = side.builder()
            built = topology_fn(builder)
            topology = built if hasattr(built, "describe") else builder.build(optimize=optimize)
            describe = topology.describe()
            driver = side.driver(topology, config)
    except Exception as error:
        return Run(failed=-1, error=error)
    with driver:
        send = _sender(driver)
        for index, step in enumerate(steps):
            try:
                send(step)
            except Exception as error:
                # what a failed step sent is undefined: take the state before it
                before = _run(side, topology_fn, steps[:index], config, optimize, names)
                before.failed, before.error = index, error
                return before
        if names is None:
            stores = {name: driver.store_contents(name) for name in driver.stores()}
        else:
            stores = {name: _contents(driver, name) for name in names}
        return Run(driver.all_output(), stores, describe, versioned=_versioned(topology))


def _versioned(topology: Any) -> frozenset[str]:
    specs = getattr(topology, "stores", {})  # Kafka's topology does not tell
    return frozenset(name for name, spec in specs.items() if spec.kind is StoreKind.VERSIONED) if specs else frozenset()


def _contents(driver: Any, name: str) -> Any:
    try:
        rows = driver.store_contents(name)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if rows is None else sorted((tuple(row) for row in rows), key=repr)


def _sender(driver: Any) -> Callable[[Step], None]:
    from penstock.serde import Serdes

    topics: dict[str, Any] = {}

    def send(step: Step) -> None:
        if step[0] == "wall_clock":
            driver.advance_wall_clock(step[1])
            return
        topic, key, value, timestamp, *rest = step
        if topic not in topics:
            topics[topic] = driver.input_topic(topic, key=Serdes.bytes, value=Serdes.bytes)
        topics[topic].pipe(key, value, timestamp, tuple(rest[0]) if rest else ())

    return send


# --- comparing ------------------------------------------------------------------------------------------------------


def _difference(kafka: Run, penstock: Run, **switches: bool) -> list[str] | None:
    """The first thing that differs, in lines, or None."""
    if kafka.failed != penstock.failed:
        return [f"  kafka:    {_outcome(kafka)}", f"  penstock: {_outcome(penstock)}"]
    if switches["describe"] and kafka.describe != penstock.describe:
        return ["describe() differs:", *_text_diff(kafka.describe, penstock.describe)]
    for topic in sorted(kafka.output.keys() | penstock.output.keys(), key=lambda topic: (_internal(topic), topic)):
        if switches.get(_internal(topic), True) and (
            found := _topic_difference(topic, kafka, penstock, switches["headers"])
        ):
            return found
    if switches["stores"]:
        for name, rows in kafka.stores.items():
            if rows is not None and rows != penstock.stores.get(name):
                return [f"store {name!r} differs:", *_rows_diff(rows, penstock.stores.get(name))]
    return None


def _outcome(run: Run) -> str:
    if run.failed is None:
        return "no step failed"
    step = "the topology was refused" if run.failed < 0 else f"step {run.failed} failed"
    cause = f" (caused by {run.error.__cause__!r})" if run.error and run.error.__cause__ else ""
    return f"{step}: {type(run.error).__name__}: {str(run.error)[:600]}{cause}"


def _internal(topic: str) -> str:
    """The switch that a topic belongs to; empty for the user's own topics, which come first."""
    if not topic.startswith(f"{oracle.APPLICATION_ID}-"):
        return ""
    return "changelogs" if topic.endswith("-changelog") else "repartitions"


def _topic_difference(topic: str, kafka: Run, penstock: Run, headers: bool) -> list[str] | None:
    columns = slice(None) if headers else slice(3)
    expected = [tuple(record[columns]) for record in kafka.output.get(topic, [])]
    actual = [tuple(record[columns]) for record in penstock.output.get(topic, [])]
    for i, record in enumerate(expected[: len(actual)]):
        if record[2] is None:
            expected[i] = (*record[:2], actual[i][2], *record[3:])
    if expected == actual or (_store_of(topic) in penstock.versioned and _but_late_rows(expected, actual)):
        return None
    at = next(
        (i for i, pair in enumerate(zip(expected, actual, strict=False)) if pair[0] != pair[1]),
        min(len(expected), len(actual)),
    )
    lines = [f"topic {topic!r} differs from record {at} (kafka wrote {len(expected)}, penstock {len(actual)}):"]
    for label, records in (("kafka:   ", expected), ("penstock:", actual)):
        lines += [f"  {label} {_show(record)}" for record in records[at : at + 3]] or [f"  {label} nothing more"]
    return lines


def _store_of(topic: str) -> str:
    return topic.removeprefix(f"{oracle.APPLICATION_ID}-").removesuffix("-changelog")


def _but_late_rows(expected: list[Any], actual: list[Any]) -> bool:
    """Whether only rows are missing that are older than one before: a versioned store logs what it refuses in Kafka only."""
    newest, rest = -1, list(actual)
    for row in expected:
        if rest and rest[0] == row:
            rest.pop(0)
        elif row[2] is None or row[2] >= newest:
            return False
        newest = max(newest, row[2] or 0)
    return not rest


def _show(record: tuple[Any, ...]) -> str:
    key, value, timestamp, *headers = record
    return f"@{timestamp} {_readable(key)} -> {_readable(value)}" + (f" {headers[0]}" if headers and headers[0] else "")


def _readable(data: Any) -> str:
    """Bytes with the number they may stand for."""
    if isinstance(data, bytes) and len(data) == 8 and not data.isalnum():
        return f"{data!r} (int64 {int.from_bytes(data, 'big', signed=True)})"
    return repr(data)


def _rows_diff(expected: Any, actual: Any) -> list[str]:
    if not isinstance(actual, list):
        return [f"  kafka:    {len(expected)} rows", f"  penstock: {actual}"]
    missing, extra = [row for row in expected if row not in actual], [row for row in actual if row not in expected]
    lines = [f"  only kafka:    {row}" for row in missing[:4]] + [f"  only penstock: {row}" for row in extra[:4]]
    return lines or ["  the same rows, but another number of them"]


def _text_diff(expected: str, actual: str) -> list[str]:
    lines = difflib.unified_diff(expected.splitlines(), actual.splitlines(), "kafka", "penstock", lineterm="", n=2)
    return [f"  {line}" for line in lines][:40]


def _first_step(both: Both, switches: dict[str, bool]) -> int | None:
    """The first step after which the sides differ, by bisection: output only grows, so a difference stays."""
    low, high = 0, len(both.script)
    if _difference(*both.again([]), **switches) is not None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _difference(*both.again(both.script[:middle]), **switches) is None:
            low = middle
        else:
            high = middle
    return high - 1


def _where(both: Both, at: int | None, switches: dict[str, bool], difference: list[str]) -> list[str]:
    if at is None:
        return ["before the first step.", *difference]
    shown = _difference(*both.again(both.script[: at + 1]), **switches) or difference
    earlier = [f"    {index}: {step!r}" for index, step in enumerate(both.script[:at])][-8:]
    return [f"first at step {at} of {len(both.script)}: {both.script[at]!r}", *shown, "  steps before it:", *earlier]
