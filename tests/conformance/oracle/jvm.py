"""One JVM in the test process, with the real Kafka Streams on its class path.

`start()` is idempotent and takes about half a second; without Java or the jars it raises, and says what to do.
`J` finds a Java class by its simple name: `J.KeyValue`, `J.Stores`, `J["java.util.ArrayList"]`.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import jpype

from penstock.dev.jars import find_java, resolve

KAFKA = "4.3.1"
COORDINATES = [
    f"org.apache.kafka:kafka-streams:{KAFKA}",
    f"org.apache.kafka:kafka-streams-test-utils:{KAFKA}",
    "org.slf4j:slf4j-nop:1.7.36@jar",  # the logging that logs nothing
]
_PACKAGES = (
    "org.apache.kafka.streams",
    "org.apache.kafka.streams.kstream",
    "org.apache.kafka.streams.kstream.internals",
    "org.apache.kafka.streams.processor.api",
    "org.apache.kafka.streams.processor",
    "org.apache.kafka.streams.state",
    "org.apache.kafka.streams.test",
    "org.apache.kafka.common.serialization",
    "org.apache.kafka.common.header.internals",
    "java.lang",  # last: Java has a Record of its own
    "java.time",
    "java.util",
)


def start() -> None:
    """Start the JVM unless it runs already."""
    if jpype.isJVMStarted():
        return
    jars = [str(jar) for jar in resolve(COORDINATES)]
    options = ["-Xmx512m", "-Xss4m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    jpype.startJVM(_jvm_library(), *options, classpath=jars, convertStrings=False)


def _jvm_library() -> str:
    """The library of the Java that `find_java` chose, so that jars and JVM agree."""
    home = find_java().resolve().parent.parent
    for found in sorted(home.rglob("libjvm.*")):
        if found.parent.name == "server":
            return str(found)
    return jpype.getDefaultJVMPath()


class _Classes:
    """Java classes by simple name, looked up once."""

    def __getattr__(self, name: str):
        for package in _PACKAGES:
            try:
                found = jpype.JClass(f"{package}.{name}")
            except TypeError:
                continue
            setattr(self, name, found)
            return found
        raise AttributeError(f"no Java class {name} in {', '.join(_PACKAGES)}")

    def __getitem__(self, full_name: str):
        return jpype.JClass(full_name)


J = _Classes()

_scratch: Path | None = None


def scratch() -> Path:
    """A fresh folder for one driver's state, in memory where the machine has such a place; all go at exit.

    The driver commits after every record, and a commit of a persistent store syncs a file: on a disk this is the cost.
    """
    global _scratch
    if _scratch is None:
        memory = Path("/dev/shm")
        _scratch = Path(tempfile.mkdtemp(prefix="oracle-", dir=memory if os.access(memory, os.W_OK) else None))
        atexit.register(shutil.rmtree, _scratch, ignore_errors=True)
    return Path(tempfile.mkdtemp(dir=_scratch))
