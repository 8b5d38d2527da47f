"""The demo: in the test driver, and as it is, on a broker and Spark of its own."""

import itertools
import json
import os
import re
import subprocess
import sys
import threading

import pytest
from typer.testing import CliRunner

from penstock.cli import demo_driver, demo_engine
from penstock.cli.app import app
from penstock.cli.demo_engine import LONGEST_DEMO_MS, DemoPlan, purchase_times
from penstock.cli.demo_topology import WINDOW, Event, Model, events, expected

RUNNER = CliRunner()


def run(*arguments: str, code: int = 0):
    result = RUNNER.invoke(app, ["demo", "--driver", *arguments])
    assert result.exit_code == code, result.output
    return result


def test_demo_in_the_driver_equals_plain_python():
    result = run("--plain", "--records", "300")
    assert "All results equal those of plain Python." in result.stdout
    assert "300 purchases" in result.stdout
    assert "Top customers" in result.stdout


def test_demo_gives_its_results_as_json_and_the_same_for_a_seed():
    first, again, other = (
        json.loads(run("--json", "--records", "50", "--seed", seed).stdout) for seed in ("7", "7", "8")
    )
    assert first["equal_to_plain_python"] is True
    assert first["purchases"] == 50
    assert first["spend_cents"] == again["spend_cents"] != other["spend_cents"]
    assert sum(first["spend_cents"].values()) == sum(row["cents"] for row in first["revenue_cents"])


def test_demo_that_differs_says_so_and_fails(monkeypatch):
    class Wrong(Model):
        @property
        def results(self):
            spend, revenue = super().results
            return type(super().results)({**spend, "customer-01": -1}, revenue)

    monkeypatch.setattr(demo_driver, "Model", Wrong)
    result = run("--plain", "--records", "200", code=1)
    assert "1 results differ" in result.stdout
    assert "customer-01: Penstock says" in result.stdout


def test_demo_events_are_late_unknown_and_repriced():
    made = list(events(2000, 1))
    purchases = [event for event in made if event.topic == "purchases"]
    assert any(one.timestamp > other.timestamp for one, other in itertools.pairwise(purchases))
    assert any(event.value["product"] == "voucher" for event in purchases)
    assert len(made) - len(purchases) == 8 + 8  # the catalogue, and a change of price every 250 purchases


@pytest.mark.parametrize("step", [0.25, 500])
def test_a_price_is_newer_than_every_purchase_before_it(step):
    newest = -1
    for event in itertools.islice(events(None, 3, step=step), 3000):
        if event.topic == "products" and newest >= 0:
            assert event.timestamp > newest
        newest = max(newest, event.timestamp if event.topic == "purchases" else -1)


def test_a_late_purchase_costs_what_the_product_cost_at_its_time():
    milk, dear = {"category": "dairy", "cents": 100}, {"category": "dairy", "cents": 150}
    bought = {"customer": "c", "product": "milk", "quantity": 1}
    made = [
        Event("products", "milk", milk, 10),
        Event("products", "milk", dear, 20),
        *(Event("purchases", f"p{at}", bought, at) for at in (9, 19, 20)),
    ]
    assert expected(made).spend == {"c": 250}


def test_a_story_of_known_length_has_just_happened_and_one_without_end_happens_now():
    now = 1_800_000_000_000
    for records in (10, 2000, 10_000_000):
        first = next(purchase_times(DemoPlan(records, None, 2000, 1), now)).timestamp
        assert 0 <= now - first <= LONGEST_DEMO_MS + WINDOW
        assert first % WINDOW == 0
    assert next(purchase_times(DemoPlan(None, None, 2000, 1), now)).timestamp == now


def test_live_view_draws_numbers_and_both_tables(monkeypatch, capsys):
    from rich.console import Console

    from penstock.cli import demo_view
    from penstock.cli.gauge import ApplicationReading

    monkeypatch.setattr(demo_view, "console", lambda: Console(force_terminal=True, width=120))
    with demo_view.live() as watch:
        progress = demo_driver.run(100, 1, watch)
        progress.reading = ApplicationReading("demo", "RUNNING", epoch=7, epochs=7, in_rate=2017, lag=12, epoch_ms=180)
        watch(progress)
    shown = capsys.readouterr().out
    for text in ("100 purchases written", "2,017", "180 ms", "Top customers", "Revenue", "Ctrl-C"):
        assert text in shown


@pytest.mark.xdist_group("spark")
def test_demo_on_kafka_and_spark_equals_plain_python_opens_its_page_and_leaves_no_control_codes(tmp_path):
    """The browser that it opens keeps what it has got; it ends with an error, which the demo does not mind."""
    browser = tmp_path / "browser.py"
    fetch = "open(sys.argv[1], 'wb').write(urllib.request.urlopen(sys.argv[2]).read())"
    browser.write_text(f"import sys, urllib.request\n{fetch}\nsys.exit(1)\n")
    environ = {**os.environ, "BROWSER": f"{sys.executable} {browser} {tmp_path / 'page.html'} %s"}
    command = [
        sys.executable,
        "-c",
        "from penstock.cli import main; main()",
        "demo",
        "--plain",
        "--open",
        "--records",
        "600",
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, env=environ)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "All results equal those of plain Python." in result.stdout
    assert re.search(r"600 purchases in .* epochs, .* First committed result after", result.stdout)
    assert "\x1b" not in result.stdout + result.stderr
    assert "WARN" not in result.stderr
    assert re.search(r"the page is at http://127\.0\.0\.1:\d+/\n", result.stderr)
    assert "<title>Penstock</title>" in (tmp_path / "page.html").read_text()


def test_a_page_that_no_browser_can_show_is_no_error(monkeypatch):
    def fail(address):
        tried.append(address)
        raise OSError("no browser")

    tried: list[str] = []
    monkeypatch.setattr(demo_engine.webbrowser, "open", fail)
    demo_engine.open_page("http://127.0.0.1:1/")
    for thread in threading.enumerate():
        if thread.name == "penstock-demo-browser":
            thread.join(10)
    assert tried == ["http://127.0.0.1:1/"]
