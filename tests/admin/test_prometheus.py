"""What is made for Prometheus, judged by Prometheus itself: the text form, the rules, every query of the board.

Debian's package ``prometheus`` has both programs; where they are not, these tests are skipped, and say so. PENSTOCK_PROMETHEUS names
a folder with them. The strict reading of the text form without them is in ``test_monitoring.py``.
"""

import http.server
import os
import shutil
import socket
import subprocess
import threading
import time
import warnings
from pathlib import Path

import httpx
import pytest
from prometheus_client.exposition import generate_latest
from test_monitoring import EXPRESSIONS, USER, one_of_each

from penstock.admin import monitoring
from penstock.admin.prometheus import Collector

WINDOW = "20s"


def program(name: str) -> str:
    found = shutil.which(name, path=os.environ.get("PENSTOCK_PROMETHEUS")) or shutil.which(name)
    if found is None:
        why = f"METRICS ARE NOT CHECKED BY PROMETHEUS: there is no {name} here (apt-get install prometheus)"
        warnings.warn(why, stacklevel=1)
        pytest.skip(why)
    return found


def text(names: str = "both") -> bytes:
    return generate_latest(Collector(one_of_each(), "an app", names, USER))


@pytest.mark.parametrize("names", ["penstock", "kafka_streams", "both"])
def test_promtool_finds_nothing_to_say_of_the_text_form(names):
    done = subprocess.run([program("promtool"), "check", "metrics"], input=text(names), capture_output=True)
    own = [line for line in done.stderr.decode().splitlines() if not line.startswith("kafka_stream_")]
    assert own == [], "names that are Kafka Streams' are as they are"
    assert done.returncode in ((0,) if names == "penstock" else (0, 3))


def test_promtool_takes_the_alert_rules(tmp_path: Path):
    rules = tmp_path / "alerts.yml"
    rules.write_text(monitoring.alerts_yaml())
    done = subprocess.run([program("promtool"), "check", "rules", str(rules)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(monitoring.ALERTS)} rules found" in done.stdout


class Scraped(http.server.BaseHTTPRequestHandler):
    """Every metric with a sample, as ``/metrics`` would give it."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(text("penstock"))

    def log_message(self, *_):
        """Be silent."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """A server of Prometheus that scrapes them every second; returns a client of it."""
    binary, folder = program("prometheus"), tmp_path_factory.mktemp("prometheus")
    target = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scraped)
    threading.Thread(target=target.serve_forever, daemon=True).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "alerts.yml").write_text(monitoring.alerts_yaml())
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
        "rule_files: [alerts.yml]\n"
        "scrape_configs:\n"
        f"  - {{job_name: penstock, static_configs: [{{targets: ['127.0.0.1:{target.server_port}']}}]}}\n"
    )
    command = [binary, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10)
    try:
        answered(client, "count_over_time(penstock_epoch[10s]) >= 3")
        yield client
    finally:
        process.terminate()
        process.wait(30)
        target.shutdown()
        client.close()


def ask(client: httpx.Client, expression: str) -> list:
    answer = client.get("/api/v1/query", params={"query": expression})
    answer.raise_for_status()  # 503 while it starts
    found = answer.json()
    assert found["status"] == "success", (expression, found)
    return found["data"]["result"]


def answered(client: httpx.Client, expression: str) -> list:
    """Ask until there is an answer: Prometheus starts, and scrapes."""
    for _ in range(300):
        try:
            if found := ask(client, expression):
                return found
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"no answer: {expression}")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_query_of_the_board_has_an_answer(prometheus, expression):
    asked = expression.replace("$application", ".*").replace("$__rate_interval", WINDOW)
    assert "$" not in asked
    assert answered(prometheus, asked), "a scrape that took too long on a busy machine leaves a gap"


def test_every_alert_rule_is_evaluated_without_an_error(prometheus):
    def health():
        groups = prometheus.get("/api/v1/rules").json()["data"]["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    for _ in range(100):
        if set(health().values()) == {"ok"}:
            break
        time.sleep(0.1)
    assert health() == {rule.name: "ok" for rule in monitoring.ALERTS}
