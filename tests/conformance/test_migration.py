"""The chapter for those who come from Kafka Streams: its programs, in Java and in Python, give the same results."""

import re
import tomllib
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import jpype
import oracle
import pytest
from bench.peers.java import CompilerNotFound, compiled, find_javac
from compare import assert_equal, run_both
from oracle.jvm import J

import penstock
from penstock import Serdes, StreamsBuilder, Topology
from penstock.config import SETTINGS
from penstock.testing import TopologyTestDriver

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "migration" / "kafka-streams.md").read_text()
BESIDE = r'<div class="beside" markdown>\n\n```java\n(.*?)```\n\n```python\n(.*?)```'
IMPORTS = """
import java.time.*;
import java.util.*;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.*;
import org.apache.kafka.streams.processor.api.*;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.query.*;
import org.apache.kafka.streams.state.*;
"""
STRING = "org.apache.kafka.common.serialization.Serdes$StringSerde"
CONFIG = {"default.value.serde": STRING}
NUMBERS = ("numbers", "ages")
#: what comes into every topic that a program reads: words, or numbers; updates, late records, a jump of time, deletes
KEYS, WORDS = ("a", "b", "c"), ("a", "b c", "bb", "c", "a", "abc")


@dataclass
class Pair:
    """One program in both languages."""

    number: int
    capabilities: list[str]
    without: list[str]
    java: str
    python: str


def pairs():
    found = re.findall(r"<!-- pair: ([^;>]*?)(?:; ([^>]*?))? -->\n" + BESIDE, TEXT, re.DOTALL)
    return [
        Pair(number, ids.split(), re.findall(r"without (\w+)", flags), java, python)
        for number, (ids, flags, java, python) in enumerate(found)
    ]


def program():
    """Return the whole program of the chapter: Java, Python."""
    return re.search(r"<!-- program: WordCount -->\n" + BESIDE, TEXT, re.DOTALL).groups()


def queries():
    return re.search(r"<!-- queries -->\n" + BESIDE, TEXT, re.DOTALL).groups()


PAIRS = pairs()


@pytest.fixture(scope="module")
def chapter(tmp_path_factory):
    """Compile all Java of the chapter as one class; return it. Where there is no compiler, say so."""
    try:
        find_javac()
    except CompilerNotFound as error:
        pytest.skip(str(error))
    methods = []
    for pair in PAIRS:
        end = "topology" if "Topology topology =" in pair.java else "builder.build()"
        methods.append(
            f"public static Topology pair{pair.number}() {{\n"
            f"StreamsBuilder builder = new StreamsBuilder();\n{pair.java}\nreturn {end};\n}}"
        )
    methods.append(f"public static void queries(KafkaStreams streams) {{\n{queries()[0]}\n}}")
    methods.append(program()[0].replace("public class", "public static class"))
    source = tmp_path_factory.mktemp("java") / "Chapter.java"
    source.write_text("\n".join([IMPORTS, "public class Chapter {", *methods, "}\n"]))
    folder = compiled(source).split(":")[0]
    oracle.start()
    url = J["java.io.File"](folder + "/").toURI().toURL()
    loader = J["java.net.URLClassLoader"]([url], J["java.lang.ClassLoader"].getSystemClassLoader())
    return lambda name="Chapter": jpype.JClass(name, loader=loader)


def run_python(code):
    """Run a program of the chapter; return its topology."""
    space = {"re": re, "timedelta": timedelta, "builder": StreamsBuilder()}
    exec("from penstock import *", space)
    exec(compile(code, "the chapter", "exec"), space)
    found = space.get("topology")
    return found if isinstance(found, Topology) else space["builder"].build()


def script(topology):
    """Return records for each topic that a topology reads, one topic after the other, again and again."""
    nodes = [node for part in topology.to_json()["subtopologies"] for node in part["nodes"] if node["kind"] == "source"]
    internal = {topic["name"] for topic in topology.to_json()["internal_topics"]}
    topics = sorted({topic for node in nodes for topic in node["topics"]} - internal)
    topics = ["sensor-1" if "*" in topic else topic for topic in topics]
    steps = []
    for round_, time in enumerate((0, 3, 9, 12, 8, 15, 26, 21, 40, 60)):
        for topic in topics:
            key = (
                WORDS[(round_ + 1) % 6]
                if topic in ("users", "products", "customers") and round_ % 2
                else KEYS[round_ % 3]
            )
            value = 7 * round_ if topic in NUMBERS else WORDS[round_ % 6]
            deleted = round_ == 7 and topic in ("users", "ages", "products", "customers")
            steps.append((topic, key, None if deleted else value, time + 1))
    return [*steps, ("wall_clock", 1500)], {
        t: (Serdes.string, Serdes.int64 if t in NUMBERS else Serdes.string) for t in topics
    }


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.number}-{'-'.join(pair.capabilities)}")
def test_the_java_and_the_python_of_a_program_give_the_same(pair, chapter):
    ours = run_python(pair.python)
    steps, inputs = script(ours)

    def topology(builder):
        if isinstance(builder, StreamsBuilder):
            return run_python(pair.python)
        return oracle.Topology(getattr(chapter(), f"pair{pair.number}")())

    both = run_both(topology, steps, inputs=inputs, config=CONFIG, in_memory=False)
    assert both.kafka.failed is None, both.kafka.error
    assert sum(len(rows) for name, rows in both.kafka.output.items()) > 3
    assert_equal(both, **dict.fromkeys(pair.without, False))


def test_the_whole_program_gives_the_same(chapter):
    space = {"__name__": "chapter"}
    exec(compile(program()[1], "the chapter", "exec"), space)
    assert isinstance(space["app"], penstock.App)

    def topology(builder):
        return space["builder"] if isinstance(builder, StreamsBuilder) else None

    java = oracle.Topology(chapter("Chapter$WordCount").topology())
    both = run_both(
        lambda builder: java if not isinstance(builder, StreamsBuilder) else space["builder"].build(),
        [("lines", "k", "tea and jam", 5), ("lines", None, "jam", 7)],
        inputs={"lines": (Serdes.string, Serdes.string)},
        config=CONFIG,
    )
    assert len(both.kafka.output["word-counts"]) == 4
    assert_equal(both)


def test_the_queries_of_the_chapter_answer():
    builder = StreamsBuilder()
    words = builder.stream("words", value=Serdes.int64).group_by_key()
    words.count(store="counts")
    words.windowed_by(penstock.TimeWindows(10)).count(store="windows")
    builder.table("prices", value=Serdes.int64, store=penstock.Stores.versioned("versions", 1000))
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("words", value=Serdes.int64).pipe_all([("tea", 1), ("jam", 2), ("tea", 3)], 0, 4)
        driver.input_topic("prices", value=Serdes.int64).pipe_all([("tea", 10), ("tea", 20)], 3, 4)
        space = {"app": driver, "answers": []}
        exec("from penstock import *", space)
        asked = re.sub(
            r"^( *)((?:list|app|snapshot\.query|result\.epoch).*)$", r"\1answers.append((\2))", queries()[1], flags=re.M
        )
        exec(compile(asked, "the chapter", "exec"), space)
        plain = [getattr(answer, "value", answer) for answer in space["answers"]]
    assert (space["tea"], space["same"]) == (2, 2)
    assert plain[1] == [("jam", 1)]
    assert plain[2] == 2
    assert [key for key, _ in plain[3]] == ["jam", "tea"]
    assert plain[4] == [(0, penstock.ValueAndTimestamp(2, 8))]
    assert plain[6] == 10
    assert [version.value for version in plain[7]] == [10, 20]
    assert plain[8].lane == 0
    assert plain[9] == 2


def sections():
    return {
        s["title"]: s["rows"] for s in tomllib.loads((ROOT / "tests/house/capabilities.toml").read_text())["section"]
    }


def test_the_chapter_has_every_capability_of_the_dsl_and_of_processors():
    covered = {name for pair in PAIRS for name in pair.capabilities}
    wanted = {
        row["id"]
        for title, rows in sections().items()
        for row in rows
        if re.match(r"(SB|KS|KT|KG|KGT|CG|TW|SW|EM|W|SU|CO|RT|PA|ST)\d", row["id"])
        and not re.match("missing|not needed", str(row.get("status", "")))
        and row["id"] not in ("ST3", "ST8", "ST9", "ST10", "ST11")
    }
    assert len(wanted) > 60
    assert wanted - covered == set()


@pytest.mark.parametrize(
    "interface",
    [
        *(f"kstream.{name}" for name in ("KStream", "KTable", "KGroupedStream", "KGroupedTable", "CogroupedKStream")),
        *(f"kstream.{name}" for name in ("TimeWindowedKStream", "SessionWindowedKStream", "BranchedKStream")),
        *("StreamsBuilder", "Topology", "state.Stores", "KafkaStreams"),
    ],
)
def test_the_chapter_has_every_method_of_an_interface(interface):
    oracle.start()
    kind = J[f"org.apache.kafka.streams.{interface}"]
    methods = {
        str(m.getName()) for m in kind.class_.getDeclaredMethods() if m.getModifiers() & 1 and not m.isSynthetic()
    }
    deprecated = {
        str(m.getName()) for m in kind.class_.getDeclaredMethods() if m.isAnnotationPresent(J["java.lang.Deprecated"])
    }
    shown = {name for name in methods if re.search(rf"\b{name}\b", TEXT)}
    ours = {name for name in methods if name.endswith(("Builder", "WithHeaders")) or name in OF_SEVERAL_INSTANCES}
    assert methods - shown - deprecated - ours == set()


#: of KafkaStreams: what is about several instances, their clients and tasks
OF_SEVERAL_INSTANCES = {
    "streamsMetadataForStore", "clientInstanceIds", "metadataForLocalThreads", "setStandbyUpdateListener",
    "metadataForAllStreamsClients", "allLocalStorePartitionLags",
}  # fmt: skip


def test_the_chapter_has_every_setting():
    oracle.start()
    theirs = {str(name) for name in J["org.apache.kafka.streams.StreamsConfig"].configDef().names()}
    rows = [row.split("|")[1:3] for row in TEXT.partition("## Settings")[2].splitlines() if row.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])]
    assert sorted(listed) == sorted(theirs)
    ours = {name for row in rows for name in re.findall(r"`([^`]+)`", row[1])}
    assert ours <= {row.name for row in SETTINGS}
