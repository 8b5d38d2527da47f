"""What an application leaves on the disk and in the process list is the user's alone, whatever the umask; one Spark of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from penstock.log.base import TopicSpec

PROGRAM = """
import json, os, sys, tempfile, threading
from pathlib import Path
os.umask(0)
from penstock import App, Serdes, StreamsBuilder
from tests.limits import children

def seen(step, epoch):
    if step != "commit" or found:
        return
    shared = Path(tempfile.gettempdir())
    found["state"] = {str(path): path.stat().st_mode & 0o777 for path in sorted(Path(state).rglob("*"))}
    found["sockets"] = [path.name for path in shared.iterdir() if path.is_socket()]
    private = Path(app._session.conf.get("spark.local.dir"))
    found["folder"] = private.stat().st_mode & 0o777, private.parent == shared
    found["files of Spark"] = [path.name for path in private.rglob("*")]
    found["in the shared folder"] = [path.name for path in shared.iterdir() if path.stat().st_mode & 0o077]
    pids = ["self", *children(os.getpid())]
    found["process list"] = [Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace") for pid in pids]
    found["told"] = app._session.sparkContext.getConf().get("spark.hadoop.some.secret.key")
    print(json.dumps(found))
    sys.stdout.flush()
    threading.Thread(target=app.close).start()

servers, name, state = sys.argv[1:]
found = {}
builder = StreamsBuilder()
counted = builder.stream(name, value=Serdes.string).group_by(lambda _, word: word, value=Serdes.string).count(store="counts")
counted.to_stream().to(f"{name}-out", value=Serdes.int64)
app = App(
    builder, application_id=name, bootstrap_servers=servers, master="local[2]", shards=2, state_dir=state, letter_records=0,
    kafka={"sasl.password": "hush-4711-canary"}, spark_settings={"spark.hadoop.some.secret.key": "hush-4711-canary"},
)
app.on_step(seen)
app.run()
"""


def test_state_sockets_shuffle_files_and_command_lines(cluster, tmp_path):
    (tmp_path / "shared").mkdir()
    words = cluster.topic("words", 2)
    cluster.log.admin.ensure_topics([TopicSpec(f"{words}-out", 1)])
    cluster.send(words, *((f"k{n}", f"w{n % 50}", 1_600_000_000_000 + n, n % 2) for n in range(3000)))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, cluster.servers, words, str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "TMPDIR": str(tmp_path / "shared"), "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[0])
    modes = {Path(path).name: mode for path, mode in found["state"].items() if path != str(tmp_path / "state")}
    assert {"data.mdb", "lock.mdb", "pages", "boot-id", "shard-0.lock"} <= modes.keys()
    assert not {name: oct(mode) for name, mode in modes.items() if mode & 0o077}
    assert found["folder"] == [0o700, True]
    assert [name for name in found["files of Spark"] if name.endswith(".sock")]
    assert [name for name in found["files of Spark"] if name.startswith("blockmgr")]
    assert found["sockets"] == []
    assert not [name for name in found["in the shared folder"] if not name.startswith("hsperfdata")]
    assert found["told"] == "hush-4711-canary"
    assert not [line for line in found["process list"] if "hush-4711-canary" in line]
