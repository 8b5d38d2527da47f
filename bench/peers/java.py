"""Compile the Java program where it is run: jars by their coordinates, classes in the cache, once for each source text."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.peers.process import CannotRun
from penstock.dev.jars import cache_root, find_java, resolve
from penstock.errors import PenstockError

KAFKA = "4.3.1"
#: Kafka Streams brings its clients, RocksDB and Jackson; and a logger that writes warnings to standard error
COORDINATES = (f"org.apache.kafka:kafka-streams:{KAFKA}", "org.slf4j:slf4j-simple:1.7.36@jar")
SOURCE = Path(__file__).with_name("Jobs.java")


class CompilerNotFound(CannotRun):
    """There is a Java runtime at most, no JDK."""


class CompilationFailed(PenstockError):
    """javac refused the program."""


def find_javac() -> Path:
    """The `javac` beside the `java` that is used, else on PATH."""
    beside = find_java().resolve().with_name("javac")
    found = beside if beside.is_file() else shutil.which("javac")
    if found is None:
        raise CompilerNotFound(
            "the Java side is skipped: there is no javac on this machine. Install a JDK, 17 or newer, "
            "and put it on PATH or in JAVA_HOME"
        )
    return Path(found)


def compiled(source: Path = SOURCE, cache: Path | None = None) -> str:
    """The class path on which the program runs; compiles it unless that was done before.

    The folder of the classes is named by the source and the jars. It appears by a rename, so it is complete if it exists.
    """
    javac, jars = find_javac(), resolve(COORDINATES)
    text = source.read_bytes()
    root = cache or cache_root() / "bench"
    version = hashlib.sha256(text + "\n".join(jar.name for jar in jars).encode()).hexdigest()[:16]
    target = root / f"{source.stem}-{version}"
    class_path = ":".join(map(str, jars))
    if not target.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root) as folder:
            classes = Path(folder) / "classes"
            _compile(javac, class_path, source, classes)
            if not target.is_dir():
                classes.rename(target)
    return f"{target}:{class_path}"


def _compile(javac: Path, class_path: str, source: Path, classes: Path) -> None:
    command = [str(javac), "--release", "17", "-cp", class_path, "-d", str(classes), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompilationFailed(f"{source.name} does not compile:\n{done.stderr}")


def command(*arguments: str, heap_mb: int = 1024) -> list[str]:
    """The command that runs the program."""
    return [
        str(find_java()),
        f"-Xmx{heap_mb}m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        compiled(),
        SOURCE.stem,
        *arguments,
    ]
