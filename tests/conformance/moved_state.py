"""What docs/migration/state.md shows: its program in Java, on the JVM of this process, its programs in Python, and records for them."""

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

TEXT = (Path(__file__).parents[2] / "docs" / "migration" / "state.md").read_text()
IMPORTS = """
import java.time.Duration;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
"""
STORES, OUTPUT = ("visits", "minutes", "sessions"), ("visit-counts", "minute-counts", "session-counts")
#: keys, and seconds: sessions that grow and merge, late records, windows of before that go on
BEFORE = [("ann", 0), ("bob", 10), ("ann", 50), ("ann", 400), ("cem", 30), ("bob", 800), ("dan", 805), ("ann", 20)]
AFTER = [("ann", 70), ("bob", 820), ("ann", 200), ("eve", 900), ("cem", 40), ("dan", 1300), ("bob", 15), ("ann", 1000)]


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


def program(name, modules):
    """Run a program of the page as a module that others may import."""
    code = re.search(rf'```python title="{name}.py"\n(.*?)```', TEXT, re.DOTALL)[1]
    module = ModuleType(name)
    modules.setitem(sys.modules, name, module)
    exec(compile(code, f"{name}.py", "exec"), module.__dict__)
    return module


def by_key(rows):
    """Return values and timestamps of each key, in their order."""
    keys = {}
    for key, value, timestamp, _ in rows:
        keys.setdefault(key, []).append((value, timestamp))
    return keys
