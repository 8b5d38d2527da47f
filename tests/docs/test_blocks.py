"""Blocks of the documents that are no examples with answers: each is run, with what its mark stands for, or says why it is not."""

import re
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.docs.blocks import DOCUMENTS, ROOT, blocks, command, marked, run

from penstock import Serdes, StreamsBuilder
from penstock.testing import TopologyTestDriver

BLOCKS = list(blocks())
#: those that need a broker and Spark are in the others
RUN_BY = ("docs/test_blocks.py", "app/test_documents.py", "query/test_sql.py")
TEXT = {"key": Serdes.string, "value": Serdes.string}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}:{block.line}")
def test_every_block_is_run_or_says_why_not(block):
    assert block.run_by, (
        "nothing runs it: make it an example (>>>), or mark it: <!-- run: NAME -->, <!-- not run: REASON -->"
    )
    if block.mark.startswith("run: "):
        tests = "".join((ROOT / "tests" / path).read_text() for path in RUN_BY)
        assert re.search(rf'\b(run|marked)\("{block.mark.removeprefix("run: ")}"', tests)


def test_every_block_is_found():
    for path in DOCUMENTS:
        page = path.relative_to(ROOT).as_posix()
        found = sum(block.page == page and block.language == "python" for block in BLOCKS)
        assert found == len(re.findall("^ *```python", path.read_text(), re.MULTILINE)), page


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
