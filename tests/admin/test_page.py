"""The page in a real browser: what a person would click, in applications that run, restore, are paused, are slow, stuck or failing."""

from __future__ import annotations

import json
import re
import threading
import time

import httpx
import pytest
from browsing import Browser, browser
from served import TOKEN
from tests.app.conftest import Cluster, Starter

from penstock import App, Serdes, StreamsBuilder, TimeWindows
from penstock.admin.server import AdminServer
from penstock.clock import SystemClock
from penstock.engine import recovery

START = 1_700_000_000_000
FRUIT = ("pear", "plum", "apple", "fig", "quince")


def price(order: dict) -> float:
    """Fails for an order without a price; slow for one that says so."""
    time.sleep(order.get("seconds", 0))
    return order["price"] * 1.19


#: as it is shown: pictures of the page are for everybody
FILE = "shop/orders.py"
price.__code__ = price.__code__.replace(co_filename=FILE)
PRICE_LINE = price.__code__.co_firstlineno


def topology(cluster: Cluster) -> StreamsBuilder:
    builder = StreamsBuilder()
    priced = builder.stream(cluster.name("orders"), name="orders").map_values(price, name="price")
    priced.group_by_key().aggregate(lambda: 0.0, lambda _, paid, total: total + paid, store="paid").to_stream().to(
        cluster.name("totals")
    )
    clicks = builder.stream(cluster.name("clicks"), value=Serdes.string, name="clicks")
    clicks.group_by_key().windowed_by(TimeWindows(1000)).count(store="clicks-per-second")
    return builder


def orders(*values: dict, keys: tuple[str, ...] = FRUIT) -> list[tuple]:
    now = SystemClock().now_ms()
    return [(keys[n % len(keys)], json.dumps(value), now, n % 2) for n, value in enumerate(values)]


def send_now_and_then(cluster: Cluster, stop: threading.Event) -> None:
    """Some orders every fifth of a second."""
    while not stop.wait(0.2):
        cluster.send(cluster.name("orders"), *orders(*({"price": 1 + n} for n in range(20))))


def epochs_until(app: App, done, seconds: float = 120) -> None:
    """Wait for what the application has to do."""
    deadline = time.monotonic() + seconds
    while not done(app.metrics()):
        assert time.monotonic() < deadline, app.metrics()
        time.sleep(0.1)


class Stage:
    """A cluster, the applications of this file, and their settings."""

    def __init__(self, cluster: Cluster, start: Starter) -> None:
        self.cluster = cluster
        self.start = start

    def app(self, **given) -> App:
        letters = {"on_processing_error": "dead_letter", "dead_letter_topic": self.cluster.name("dead")}
        return self.start.app(
            topology(self.cluster), **{"admin_token": TOKEN, "max_epoch_records": 200, "kafka": {}, **letters, **given}
        )

    def send(self, topic: str, *rows: tuple) -> None:
        self.cluster.send(self.cluster.name(topic), *rows)


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def stage(chromium, kafka_broker, spark_session, tmp_path_factory):
    cluster = Cluster(kafka_broker.bootstrap_servers, "shop")
    before = cluster.log.admin.topics().keys()
    start = Starter(spark_session, cluster, tmp_path_factory.mktemp("state"))
    for topic in ("orders", "totals", "dead", "clicks"):
        cluster.topic(topic, partitions=2)
    yield Stage(cluster, start)
    start.close()
    cluster.log.admin.delete_topics(cluster.log.admin.topics().keys() - before)
    cluster.close()


@pytest.fixture(scope="module")
def running(stage):
    """The application that most tests look at; orders come all the time."""
    app = stage.app(admin="0", commit_interval_ms=100)
    app.start().wait_until_running(180_000)
    traffic, stop = Cluster(stage.cluster.servers, stage.cluster.tag), threading.Event()
    thread = threading.Thread(target=send_now_and_then, args=(traffic, stop), daemon=True)
    thread.start()
    epochs_until(app, lambda seen: seen["records_in"] > 200)
    yield app
    stop.set()
    thread.join()
    traffic.close()
    app.close(120_000)


@pytest.fixture
def page(chromium: Browser, running):
    chromium.open(running.admin_address)
    return chromium


def test_a_running_application_at_a_glance(page, running):
    page.sees("#state", "RUNNING")
    page.sees("#application", running.application_id)
    page.until(lambda: int(page.text("#figure-epoch").replace(",", "")) > 1, "no epoch")
    page.until(lambda: float(page.text("#figure-in").split()[0].replace("–", "0")) > 0, "no records come in")
    assert "ago" in page.text("#figure-last-commit")
    page.until(lambda: any("/s" in text for text in page.text("#picture text.rate").splitlines()), "no rates")
    assert "bootstrap_servers" in page.text("#config-table")
    assert TOKEN not in page.driver.page_source
    page.picture("running")
    assert page.complaints() == []


def test_a_node_shows_its_function_by_click_and_by_key(page):
    page.until(lambda: page.all("#node-price"), "no picture")
    page.click("#node-price text")
    assert f"price ({FILE}:{PRICE_LINE})" in page.sees("#node", "MapValues", "function")
    page.type('#picture g[data-name="orders"][role=button]', "\n")
    page.sees("#node h3", "orders")


def test_an_epoch_is_chosen_with_the_arrow_keys(page):
    from selenium.webdriver.common.keys import Keys

    page.until(lambda: "commit" in page.text("#legend"), "no epochs")
    page.type("#timeline", Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    shown = page.sees("#epoch", "Epoch", "took", "read")
    assert "run lanes" in shown


def test_a_key_is_looked_up_and_changes_come_live(page):
    page.until(lambda: page.all("#key-paid"), "no stores")
    page.type("#key-paid", "pear", "\n")
    page.sees("#answer-paid", "epoch", '"key": "pear"', '"value"')
    page.one("#key-paid").clear()
    page.type("#key-paid", "nobody", "\n")
    page.sees("#answer-paid", "has no such key")
    page.click("#live-paid")
    page.sees("#changes-paid", "plum", "time (UTC)")


def test_it_is_light_or_dark_as_the_system_prefers_or_as_the_switch_says(page):
    paper = "return getComputedStyle(document.body).backgroundColor"
    page.prefer("dark")
    dark = page.driver.execute_script(paper)
    page.prefer("light")
    assert page.driver.execute_script(paper) != dark
    page.click("#theme")
    assert (page.theme(), page.driver.execute_script(paper)) == ("dark", dark)
    page.driver.refresh()
    page.until(lambda: page.theme() == "dark", "forgotten")
    page.driver.execute_script("localStorage.clear()")


@pytest.mark.parametrize("width", [1400, 1000, 420])
def test_nothing_is_wider_than_the_window(page, width):
    page.until(lambda: page.all("#picture svg"), "no picture")
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        assert page.overflow() <= 0
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_why_is_it_stuck_a_partition_without_data(page, stage):
    """The operator sees which partition event time waits for, and what to do about it."""
    stage.send("clicks", ("a", "x", START, 0), ("a", "x", START + 60_000, 0), ("b", "x", START, 1))
    name = stage.cluster.name("clicks")
    told = page.sees("#findings", f"Event time waits for {name}-1", "idle_after")
    assert f"60 s behind {name}-0" in told
    marked = page.sees("#inputs-table tr.waited", name).split()
    assert marked[:2] == [name, "1"]


def test_which_records_fail_and_the_way_back(page, stage, running):
    """The operator sees node, exception, line and records; opens one; redrives it with the token; then all others."""
    stage.send("orders", *orders({"prize": 1}, {"price": 2}, {"prize": 3}, keys=("broken",)))
    told = page.sees("#findings .error", "fail at price: KeyError")
    assert f"{FILE}:{PRICE_LINE + 3}" in told
    page.sees("#errors-body", "KeyError at price", stage.cluster.name("orders"), "dead letter")
    page.sees("#letters-body", "KeyError at price", "Redrive all 2")
    page.picture("failing")
    page.click("#letters-body details.letter summary")
    shown = page.sees("#letters-body details.letter[open]", "broken", "KeyError: 'price'", "in price")
    assert '"prize"' in shown
    page.driver.execute_script("sessionStorage.clear()")
    page.click("#letters-body details.letter[open] button")
    page.until(lambda: page.one("#ask").is_displayed(), "the token is not asked for")
    page.type("#token", "wrong", "\n")
    page.until(
        lambda: page.one("#ask").is_displayed() and page.one("#token").get_attribute("value") == "", "no second try"
    )
    page.type("#token", TOKEN, "\n")
    page.sees("#notice", "1 records written again")
    # what was redriven fails again: a new letter
    page.sees("#letters-body .count", "3")
    page.sees("#letters-body summary", "· redriven")
    assert page.complaints() == []


def test_pause_and_resume(page, running):
    page.driver.execute_script("sessionStorage.setItem('token', arguments[0])", TOKEN)
    page.sees("#pause", "Pause")
    page.click("#pause")
    page.sees("#state", "PAUSED")
    assert running.paused
    page.sees("#findings", "The application is paused")
    page.sees("#pause", "Resume")
    page.click("#pause")
    page.sees("#state", "RUNNING")
    assert not running.paused


def workers(app: App) -> list[dict]:
    """What each worker is doing now."""
    return httpx.get(f"http://{app.admin_address}/debug/threads", timeout=60).json()["workers"]


def test_why_is_it_slow_one_slow_function(page, stage, running):
    """The operator sees which node takes the time, and its function; the node is the warmest of the picture."""
    assert "price takes" not in page.text("#findings")
    stage.send("orders", *orders(*({"price": 1, "seconds": 0.05} for _ in range(600))))
    busy = page.until(
        lambda: [worker for worker in workers(running) if worker["node"] == "price"], "no worker is in price"
    )
    assert busy[0]["line"] == f"price ({FILE}:{PRICE_LINE + 2})"
    assert re.match(r"epoch \d+, step 0, lane \d", busy[0]["task"])
    told = page.sees("#findings", "price takes", "records wait")
    assert f"price ({FILE}:{PRICE_LINE})" in told
    heat = "return +document.getElementById('node-' + arguments[0]).style.getPropertyValue('--heat')"
    page.until(lambda: page.driver.execute_script(heat, "price") > 0.5, "the slow node is not warm")
    page.picture("slow")


def test_an_application_that_restores_and_then_fails(chromium, stage, running, monkeypatch):
    """Served by another program's server, so that it answers after its end."""
    running.close(180_000)
    stage.start.forget()
    held, go = threading.Event(), threading.Event()
    monkeypatch.setattr(recovery, "RESTORE_ROWS", 2)
    app = stage.app(on_processing_error="fail")
    app.on_restore(lambda progress: None if progress.done else (held.set(), go.wait(120)))
    server = AdminServer(app.admin_asgi(), "127.0.0.1:0")
    server.start()
    try:
        app.start()
        assert held.wait(180)
        chromium.open(server.address)
        chromium.sees("#state", "REBALANCING")
        chromium.sees("#findings .info", "restoring state", "rows restored", "offsets left")
        chromium.picture("restoring")
        go.set()
        chromium.sees("#state", "RUNNING")
        stage.send("orders", *orders({"prize": 1}, keys=("poison",)))
        chromium.sees("#state", "ERROR")
        chromium.sees("#findings .error", "has failed: ProcessingError", "price", stage.cluster.name("orders"))
        assert f"price ({FILE}:{PRICE_LINE})" in chromium.sees("#ended", "Ended by ProcessingError", "KeyError")
        chromium.picture("failed")
    finally:
        go.set()
        server.stop()
