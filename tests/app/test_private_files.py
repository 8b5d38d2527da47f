"""What an application leaves on the disk and in the process list is the user's alone, whatever the umask; one Spark of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from penstock.log.base import TopicSpec

PROGRAM = """
import json, os, sys, threading
from pathlib import Path
os.umask(0)
from penstock import App, Serdes, StreamsBuilder
from tests.limits import children

def mode(path):
    return path.stat().st_mode & 0o777

def sockets(pids):
    # the names of the sockets that these processes have open
    named = {line.split()[6]: line.split()[7] for line in Path("/proc/net/unix").read_text().splitlines() if "/" in line}
    links = [os.readlink(link) for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    return {named[link[8:-1]] for link in links if link.startswith("socket:") and link[8:-1] in named}

def seen(step, epoch):
    if step != "commit" or found:
        return
    pids = [os.getpid(), *children(os.getpid())]
    private = Path(app._session.conf.get("spark.local.dir"))
    found.update(
        {
            "state": {str(path): mode(path) for path in sorted(Path(state).rglob("*"))},
            "sockets": {name: mode(Path(name).parent) for name in sockets(pids)},
            "files of Spark": [path.name for path in private.rglob("*")],
            "folder of Spark": mode(private),
            "process list": [Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace") for pid in pids],
            "told to Spark": app._session.sparkContext.getConf().get("spark.hadoop.some.secret.key"),
        }
    )
    print(json.dumps(found), flush=True)
    threading.Thread(target=app.close).start()

servers, name, state = sys.argv[1:]
found = {}
builder = StreamsBuilder()
words = builder.stream(name, value=Serdes.string).group_by(lambda _, word: word, value=Serdes.string)
words.count(store="counts").to_stream().to(f"{name}-out", value=Serdes.int64)
app = App(
    builder, application_id=name, bootstrap_servers=servers, master="local[2]", shards=2, state_dir=state, inline_epoch_records=0,
    kafka={"sasl.password": "hush-4711-canary"}, spark_settings={"spark.hadoop.some.secret.key": "hush-4711-canary"},
)
app.on_step(seen)
app.run()
"""


def test_state_sockets_shuffle_files_and_command_lines(cluster, tmp_path):
    words, state = cluster.topic("words", 2), tmp_path / "state"
    cluster.log.admin.ensure_topics([TopicSpec(f"{words}-out", 1)])
    cluster.send(words, *((f"k{n}", f"w{n % 50}", 1_600_000_000_000 + n, n % 2) for n in range(3000)))
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py"), cluster.servers, words, str(state)],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[0])
    modes = {Path(path).relative_to(state).as_posix(): mode for path, mode in found["state"].items()}
    assert {"data.mdb", "lock.mdb", "pages", "boot-id", "shard-0.lock"} <= {Path(path).name for path in modes}
    assert not {name: oct(mode) for name, mode in modes.items() if mode & 0o077}
    assert len(found["sockets"]) > 0
    assert set(found["sockets"].values()) == {0o700}, found["sockets"]
    assert found["folder of Spark"] == 0o700
    assert [name for name in found["files of Spark"] if name.startswith("blockmgr")]
    assert found["told to Spark"] == "hush-4711-canary"
    assert not [line for line in found["process list"] if "hush-4711-canary" in line]
