"""What docs/migration/state.md shows: its program in Java, on the JVM of this process, its programs in Python, and records for them.

And another application, of versioned tables and foreign keys, for the program that moves.
"""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jpype
import oracle
import pytest
from bench.peers.java import CompilerNotFound, compiled, find_javac
from oracle.jvm import J

from penstock import Serdes, Stores

TEXT = (Path(__file__).parents[2] / "docs" / "migration" / "state.md").read_text()
IMPORTS = """
import java.time.Duration;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
"""
RESET = re.search(r"`(penstock reset [^`]*)`", TEXT)[1]
STORES, OUTPUT = ("visits", "minutes", "sessions"), ("visit-counts", "minute-counts", "session-counts")
#: keys, and seconds: sessions that grow and merge, late records, windows of before that go on
BEFORE = [("ann", 0), ("bob", 10), ("ann", 50), ("ann", 400), ("cem", 30), ("bob", 800), ("dan", 805), ("ann", 20)]
AFTER = [("ann", 70), ("bob", 820), ("ann", 200), ("eve", 900), ("cem", 40), ("dan", 1300), ("bob", 15), ("ann", 1000)]


#: topic, key, value, second: an order's first letter is its customer
SHOP_BEFORE = [
    ("customers", "a", "Ann", 0), ("orders", "1", "a tea", 1), ("orders", "2", "b jam", 2), ("orders", "3", "a bun", 3),
    ("prices", "tea", "5", 0), ("prices", "tea", "6", 20), ("prices", "jam", "9", 5), ("prices", "tea", "7", 40),
    ("sales", "tea", "one", 25), ("orders", "3", "c bun", 6), ("prices", "jam", None, 30), ("customers", "d", "Dan", 6),
]  # fmt: skip
SHOP_AFTER = [
    ("customers", "a", "Anna", 50), ("customers", "b", "Bob", 51), ("orders", "4", "d cup", 52), ("customers", "c", "Cem", 53),
    ("sales", "tea", "old", 10), ("sales", "jam", "gone", 35), ("sales", "jam", "was", 29), ("sales", "tea", "new", 45),
    ("orders", "1", "b tea", 54), ("customers", "a", None, 55), ("orders", "2", None, 56), ("customers", "b", "Bo", 57),
]  # fmt: skip


def java_topology(folder: Path) -> Any:
    """Compile and load the program in Java; return its topology. Where there is no compiler, skip the test and say so."""
    try:
        find_javac()
    except CompilerNotFound as error:
        pytest.skip(str(error))
    oracle.start()
    source = folder / "Visits.java"
    source.write_text(IMPORTS + re.search(r"<!-- file: Visits.java -->.*?```java\n(.*?)```", TEXT, re.DOTALL)[1])
    url = J["java.io.File"](compiled(source).split(":")[0] + "/").toURI().toURL()
    loader = J["java.net.URLClassLoader"]([url], J["java.lang.ClassLoader"].getSystemClassLoader())
    return jpype.JClass("Visits", loader=loader).topology()


def code(name: str) -> str:
    """Return a program of the page."""
    return re.search(rf'```python title="{name}"\n(.*?)```', TEXT, re.DOTALL)[1]


def commands() -> list[str]:
    """Return the commands of the page."""
    return re.search(r"```console\n(.*?)```", TEXT, re.DOTALL)[1].splitlines()


def program(name, modules):
    """Run a program of the page as a module that others may import."""
    module = ModuleType(name)
    modules.setitem(sys.modules, name, module)
    exec(compile(code(f"{name}.py"), f"{name}.py", "exec"), module.__dict__)
    return module


def by_key(rows):
    """Return values and timestamps of each key, in their order."""
    keys = {}
    for key, value, timestamp, _ in rows:
        keys.setdefault(key, []).append((value, timestamp))
    return keys


def compacted(rows):
    """Return what compaction leaves of a changelog: value and timestamp of each key that has one."""
    return {key: kept[-1] for key, kept in by_key(rows).items() if kept[-1][0] is not None}


def shop(builder):
    """A foreign-key join, and a stream that joins a versioned table as of its own time."""
    text = {"key": Serdes.string, "value": Serdes.string}
    orders = builder.table("orders", store=Stores.key_value("orders", **text), **text)
    customers = builder.table("customers", store=Stores.key_value("customers", **text), **text)
    named = orders.join(customers, lambda order, customer: f"{order}+{customer}", foreign_key=lambda order: order[0])
    named.to_stream().to("named", **text)
    prices = builder.table("prices", store=Stores.versioned("prices", history=60_000, **text), **text)
    builder.stream("sales", **text).join(prices, lambda sale, price: f"{sale} at {price}").to("sold", **text)
