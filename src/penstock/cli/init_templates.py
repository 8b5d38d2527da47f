"""The files of a new project, as ``penstock init`` writes them; ``@NAME@`` and ``@MODULE@`` stand for its names."""

from __future__ import annotations

APPLICATION = '''\
"""Counts the words of the topic ``lines`` into the topic ``word-counts``."""

from penstock import App, Serdes, StreamsBuilder

builder = StreamsBuilder()
(
    builder.stream("lines", value=Serdes.string)
    .flat_map_values(str.split)
    .group_by(lambda _, word: word)
    .count(store="counts")
    .to_stream()
    .to("word-counts")
)

# all other settings come from the environment, as PENSTOCK_BOOTSTRAP_SERVERS: `penstock config` lists them
app = App(builder, application_id="@NAME@")

if __name__ == "__main__":
    app.run()
'''

TEST = '''\
"""The topology in the test driver: no broker, no Spark, no Java."""

from @MODULE@ import builder

from penstock import Serdes
from penstock.testing import TopologyTestDriver


def test_words_are_counted():
    with TopologyTestDriver(builder) as driver:
        lines = driver.input_topic("lines", value=Serdes.string)
        lines.pipe(None, "hello stream")
        lines.pipe(None, "hello")
        counts = driver.output_topic("word-counts", value=Serdes.int64)
        assert [(record.key, record.value) for record in counts.read_all()] == [("hello", 1), ("stream", 1), ("hello", 2)]
        assert driver.store("counts").get("hello") == 2
'''

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "@NAME@"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["penstock-streams"]

[project.optional-dependencies]
dev = ["pytest>=8"]

[tool.setuptools]
py-modules = ["@MODULE@"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
"""

CONTAINERFILE = """\
FROM python:3.13-slim
RUN apt-get update \\
    && apt-get install --yes --no-install-recommends default-jre-headless \\
    && rm -rf /var/lib/apt/lists/* \\
    && useradd --uid 10001 --no-create-home application \\
    && install --directory --owner=10001 --group=10001 /state
WORKDIR /app
COPY pyproject.toml @MODULE@.py ./
RUN pip install --no-cache-dir .
# the root file system may be read-only: state goes to /state, all else to /tmp
ENV PENSTOCK_ADMIN=0.0.0.0:8080 PENSTOCK_STATE_DIR=/state HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
VOLUME /state
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["penstock", "run", "--plain", "@MODULE@:app"]
"""

GITIGNORE = """\
.venv/
__pycache__/
*.egg-info/
.pytest_cache/
build/
dist/
"""

README = """\
# @NAME@

A Kafka Streams application in Python, on Penstock: counts the words of the topic `lines` into `word-counts`.

```console
python3 -m venv .venv
.venv/bin/pip install -e '.[dev]'
.venv/bin/pytest                                         # no broker, no Spark, no Java
```

With a broker (Java 17 or newer is needed):

```console
.venv/bin/penstock dev                                   # one on localhost:9092, until Ctrl-C; the rest elsewhere
.venv/bin/penstock topics create lines --partitions 4
.venv/bin/penstock run @MODULE@:app
.venv/bin/penstock produce lines                         # type lines
.venv/bin/penstock consume word-counts --value int64
```

In a container; SIGTERM stops it at a barrier, so give it time:

```console
docker build --file Containerfile --tag @NAME@ .
docker run --read-only --tmpfs /tmp:exec --volume @NAME@-state:/state --stop-timeout 60 \\
    --env PENSTOCK_BOOTSTRAP_SERVERS=broker:9092 @NAME@
```

Run one instance: a second one with the same application id takes over from the first.
"""


def project_files(name: str, module: str) -> dict[str, str]:
    """Return the files of a project, by path.

    >>> list(project_files("word-count", "word_count"))[:2]
    ['word_count.py', 'tests/test_word_count.py']
    """
    templates = {
        f"{module}.py": APPLICATION,
        f"tests/test_{module}.py": TEST,
        "pyproject.toml": PYPROJECT,
        "Containerfile": CONTAINERFILE,
        ".gitignore": GITIGNORE,
        "README.md": README,
    }
    return {path: text.replace("@NAME@", name).replace("@MODULE@", module) for path, text in templates.items()}
