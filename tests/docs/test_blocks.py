"""Blocks of the documents that are no examples with answers: each is run, with what its mark stands for, or says why it is not."""

import json
import re
import shlex
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.app.conftest import cluster, start  # noqa: F401
from tests.docs.blocks import DOCUMENTS, ROOT, blocks, marked
from typer.testing import CliRunner

import penstock
from penstock import Serdes, Stores, StreamsBuilder, TimeWindows
from penstock.cli.app import app as commands
from penstock.log.base import TopicSpec
from penstock.testing import TopologyTestDriver

BLOCKS = list(blocks())
TEXT = {"key": Serdes.string, "value": Serdes.string}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}:{block.line}")
def test_every_block_is_run_or_says_why_not(block):
    assert block.run_by, (
        "nothing runs it: make it an example (>>>), or mark it: <!-- run: NAME -->, <!-- not run: REASON -->"
    )
    if block.mark.startswith("run: "):
        tests = (ROOT / "tests/docs/test_blocks.py").read_text()
        assert re.search(rf"^def test_{block.mark.removeprefix('run: ')}\(", tests, re.MULTILINE)


def test_every_block_is_found():
    for path in DOCUMENTS:
        page = path.relative_to(ROOT).as_posix()
        found = sum(block.page == page and block.language == "python" for block in BLOCKS)
        assert found == len(re.findall("^ *```python", path.read_text(), re.MULTILINE)), page


def run(name, space, **instead):
    """Run the blocks of Python with a mark, one after the other, in one space of names; return it. ``instead``: of words."""
    found = [block for block in marked(name) if block.language == "python"]
    assert found
    space = {public: getattr(penstock, public) for public in penstock.__all__} | space
    for block in found:
        text = block.text
        for here, there in instead.items():
            assert here in text or len(found) > 1
            text = text.replace(here, there)
        exec(compile(text, f"{block.page}:{block.line}", "exec"), space)
    return space


def test_queries():
    builder = StreamsBuilder()
    words = builder.stream("words", value=Serdes.int64).group_by_key(value=Serdes.int64)
    words.count(store="counts")
    words.reduce(lambda one, other: one + other, store="balances")
    builder.stream("words", value=Serdes.int64).group_by(lambda *_: "all", value=Serdes.int64).count(store="totals")
    with TopologyTestDriver(builder, partitions=4) as driver:
        topic = driver.input_topic("words", value=Serdes.int64)
        for word in ("apple", "pear", "apple"):
            topic.pipe(word, 5, 1, partition=3)
        space = run("queries", {"app": driver, "offset": 2})
    assert (space["result"].value, space["result"].position) == (2, {("words", 3): 2})
    assert (space["word"], space["count"]) == ("apple", 2)
    assert space["accounts"] == {"apple": 10, "pear": 5}
    assert space["total"] == 3


def test_metrics():
    builder = StreamsBuilder()
    builder.stream("orders").process(run("metrics", {})["Orders"], name="count")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("orders").pipe_all([("a", {"price": 20}), ("b", {"price": 7})])
        shown = str(driver.metrics()["user"])
    assert "orders" in shown, shown
    assert "last_price" in shown, shown


def test_tracing(monkeypatch):
    exported, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    monkeypatch.setattr(trace, "get_tracer", lambda name: provider.get_tracer(name))
    builder = StreamsBuilder()
    builder.stream("orders", **TEXT).process(run("tracing", {})["Orders"]).to("checked", **TEXT)
    with TopologyTestDriver(builder) as driver:
        parent = ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        driver.input_topic("orders", value=Serdes.string).pipe("a", "tea", headers=[parent])
        assert driver.output_topic("checked", value=Serdes.string).read_values() == ["tea"]
    (span,) = exported.get_finished_spans()
    assert f"{span.context.trace_id:x}" == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert f"{span.parent.span_id:016x}" == "00f067aa0ba902b7"


def test_plan(tmp_path, monkeypatch):
    (program,) = (block for block in BLOCKS if block.title == "shop.py")
    (tmp_path / "shop.py").write_text(program.text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "shop", None)
    (block,) = marked("plan")
    assert "by batch" in command(block.text, {})


def test_fixtures(topology_driver, kafka_broker, spark_session):
    builder = StreamsBuilder()
    builder.stream("words", **TEXT).group_by_key().count(store="counts")
    space = run("fixtures", {"builder": builder})
    space["test_words_are_counted"](topology_driver)
    space["test_on_a_real_broker"](kafka_broker, spark_session)


def add(customer, order, total):
    return {"orders": total["orders"] + 1, "amount": total["amount"] + order["amount"]}


def per_piece(order):
    return order["amount"] // order["pieces"]


def shop(name):
    """What the documents ask about: totals, visits in windows, versions of prices, and a node that may divide by zero."""
    builder = StreamsBuilder()
    orders = builder.stream(name("orders"))
    orders.group_by_key().aggregate(lambda: {"orders": 0, "amount": 0}, add, store="totals")
    orders.group_by_key().windowed_by(TimeWindows(60_000)).count(store="visits")
    orders.map_values(per_piece, name="divide").to(name("pieces"))
    builder.table(name("prices"), store=Stores.versioned("prices", 3_600_000, value=Serdes.int64), value=Serdes.int64)
    return builder


ORDERS = [("ann", 5, 1), ("ann", 8, 0), ("ben", 1, 1), ("ann", 2, 0)]
START = 1_750_000_000_000
LETTERS = {"on_processing_error": "dead_letter", "dead_letter_topic": "shop-dead-letters"}


@pytest.fixture
def running_shop(cluster, start):  # noqa: F811
    """The application, with a row in each store and two dead letters; it answers over HTTP."""
    cluster.log.admin.ensure_topics([TopicSpec("shop-dead-letters", 1, {"retention.ms": "-1"})])
    for word in ("orders", "pieces", "prices"):
        cluster.topic(word)
    rows = [(who, json.dumps({"amount": amount, "pieces": pieces}), START + 60_000) for who, amount, pieces in ORDERS]
    cluster.send(cluster.name("orders"), *rows)
    cluster.send(cluster.name("prices"), ("pear", (7).to_bytes(8, "big"), START))
    app = start.app(shop(cluster.name), application_id="shop", admin="127.0.0.1:0", **LETTERS)
    app.start().wait_until_running()
    assert app.barriers.wait({(cluster.name("orders"), 0): 3, (cluster.name("prices"), 0): 0}, wait_ms=120_000)
    return app


def test_shop(running_shop, cluster, spark_session, tmp_path, monkeypatch):  # noqa: F811
    customers = tmp_path / "customers.parquet"
    pq.write_table(pa.table({"id": ["ann", "ben"], "country": ["DE", "EG"]}), customers)
    there = {"localhost:9092": cluster.servers, "customers.parquet": str(customers), '"SSL"': '"PLAINTEXT"'}
    totals = run("shop", {"spark": spark_session}, **there)["totals"]
    assert {row.key: row.value.amount for row in totals.collect()} == {"ann": 15.0, "ben": 1.0}

    monkeypatch.setenv("PENSTOCK_BOOTSTRAP_SERVERS", cluster.servers)
    said = ""
    for block in marked("shop"):
        for line in block.text.splitlines() if block.language != "python" else ():  # the last ones write records again
            said += command(line, {"http://127.0.0.1:8080": f"http://{running_shop.admin_address}", "0:17": "0:0"})
    for part in ("ann\t", "divide", "ZeroDivisionError", "would"):
        assert part in said, said


def command(line, instead):
    """Run a command line of a document in this process; return what it says."""
    for here, there in instead.items():
        line = line.replace(here, there)
    words = shlex.split(line.replace("-d dead ", "-d shop-dead-letters "), comments=True)
    result = CliRunner().invoke(commands, words[1:], input="y\n")  # to what asks
    assert result.exit_code == 0, f"{line}\n{result.output}"
    return result.output
