"""A real application on a real broker, asked over HTTP: every route, every error, changes as they come."""

import asyncio
import base64
import json
import os
import socket
import threading
from threading import Event
from urllib.parse import quote

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from served import TOKEN
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.app.conftest import Cluster, Starter

from penstock import App, Processor, Serdes, SessionWindows, Stores, StreamsBuilder, TimeWindows
from penstock.admin import change_ring, connection, cursors
from penstock.admin.asgi import is_local
from penstock.admin.metric_table import BY_NAME
from penstock.admin.point_lookups import PointLookups
from penstock.admin.routes import ENDPOINTS
from penstock.engine import recovery
from penstock.errors import UnknownStore
from penstock.query.queries import KeyQuery

START = 1_600_000_020_000
TEXT = {"key": Serdes.string, "value": Serdes.string}
WRITES = {"Authorization": f"Bearer {TOKEN}"}
LONG = "k" * 990_000  # a record has at most a megabyte, by default


class Kinds(Processor):
    """Puts each record into stores with keys of several kinds."""

    def process(self, record):
        number = int(record.value)
        self.context.metrics.counter("seen").inc()
        self.context.metrics.gauge("newest").set(number)
        self.context.metrics.histogram("numbers", (10, 100)).observe(number)
        self.context.store("numbers").put(number, {"n": number})
        self.context.store("raw").put(b"\xff" + record.value.encode(), record.value.encode())
        self.context.store("objects").put({"id": number}, [number])


def topology(cluster: Cluster) -> StreamsBuilder:
    builder = StreamsBuilder()
    lines = builder.stream(cluster.name("lines"), **TEXT).group_by_key()
    lines.count(store="counts").to_stream().to(cluster.name("out"), value=Serdes.int64)
    lines.windowed_by(TimeWindows(1000, grace=60_000)).count(store="windows")
    lines.windowed_by(SessionWindows(500, grace=60_000)).reduce(lambda old, new: old + new, store="sessions")
    builder.table(cluster.name("prices"), **TEXT, store=Stores.versioned("prices", 600_000, **TEXT))
    builder.global_table(cluster.name("everywhere"), **TEXT, store="everywhere")
    stores = [
        Stores.shared("numbers", key=Serdes.int64),
        Stores.shared("raw", key=Serdes.bytes, value=Serdes.bytes),
        Stores.shared("objects", key=Serdes.json),
    ]
    for spec in stores:
        builder.add_state_store(spec)
    builder.stream(cluster.name("kinds"), **TEXT).process(Kinds, stores=[spec.name for spec in stores])
    return builder


def own(app: App) -> Starlette:
    """An ASGI application of the user's, which asks the stores."""

    async def count(request):
        result = await asyncio.to_thread(app.query, "counts", KeyQuery(request.query_params["of"]))
        return PlainTextResponse(str(result.value))

    return Starlette(routes=[Route("/count", count)])


class Asked:
    """The application and a client of it."""

    def __init__(self, app: App, cluster: Cluster) -> None:
        self.app = app
        self.cluster = cluster
        self.client = httpx.Client(base_url=f"http://{app.admin_address}", timeout=30)
        self._sent = dict.fromkeys(("lines", "prices", "kinds"), 0)

    def send(self, word: str, *rows: tuple) -> dict[str, str]:
        """Send records; return the parameters by which an answer has their effect."""
        self.cluster.send(self.cluster.name(word), *rows)
        self._sent[word] += len(rows)
        position = json.dumps({self.cluster.name(word): {"0": self._sent[word] - 1}})
        return {"position": position, "wait_ms": "30000"}

    def get(self, path: str, code: int = 200, **options):
        answer = self.client.get(path, **options)
        assert answer.status_code == code, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def asked(kafka_broker, spark_session, tmp_path_factory):
    cluster = Cluster(kafka_broker.bootstrap_servers, f"http-{os.getpid()}")
    before = cluster.log.admin.topics().keys()
    start = Starter(spark_session, cluster, tmp_path_factory.mktemp("state"))
    for topic in ("lines", "out", "prices", "kinds", "everywhere"):
        cluster.topic(topic)
    cluster.send(cluster.name("everywhere"), ("de", "Germany", START))
    app = start.app(topology(cluster), admin="0", admin_token=TOKEN)
    app.mount("/own", own(app))
    app.start().wait_until_running(120_000)
    found = Asked(app, cluster)
    rows = [("ant", "a", 0), ("bee", "b", 100), ("ant", "c", 300), ("ant", "d", 2500), ("bat/x y", "e", 2600)]
    bound = found.send("lines", *((key, value, START + at) for key, value, at in rows))
    found.get("/v1/stores/counts/keys/ant", params=bound)
    prices = [("pear", "1", 0), ("pear", "3", 2000), ("pear", "2", 1000), ("plum", "9", 0), ("plum", None, 500)]
    bound = found.send("prices", *((key, value, START + at) for key, value, at in prices))
    found.get("/v1/stores/prices/keys/pear", params=bound)
    bound = found.send("kinds", *(("k", str(number), START) for number in (7, 11, 300)))
    found.get("/v1/stores/numbers/keys/7", params=bound)
    yield found
    found.client.close()
    start.close()
    cluster.log.admin.delete_topics(cluster.log.admin.topics().keys() - before)
    cluster.close()


def test_what_the_application_says_of_itself(asked):
    info = asked.get("/v1/info")
    assert info["state"] == "RUNNING"
    assert info["epoch"] >= 1
    assert info["position"][asked.cluster.name("lines")]["0"] >= 4
    stores = {store["name"]: store["kind"] for store in asked.get("/v1/state")["stores"]}
    assert stores["windows"] == "window"
    assert sum(shard["bytes"] for shard in asked.get("/state")["shards"]) > 0
    assert asked.get("/v1/state")["restore"]["done"]
    rows = {store["name"]: store["rows"] for store in asked.get("/v1/state?rows=true")["stores"]}
    assert rows["numbers"] == 3
    (lines,) = [row for row in asked.get("/v1/offsets")["partitions"] if row["topic"] == asked.cluster.name("lines")]
    assert lines["end"] - lines["position"] == lines["lag"] == 0
    times = {row["topic"]: row["time"] for row in asked.get("/watermarks")["partitions"]}
    assert times[asked.cluster.name("prices")] == START + 2000
    assert asked.get("/v1/errors")["ended"] is None


def test_a_store_says_about_how_many_rows_and_bytes_it_has_and_what_is_left_of_its_restore(asked):
    def sizes():
        found = {store["name"]: store for store in asked.get("/v1/state")["stores"]}
        assert {store["restore_remaining"] for store in found.values()} == {0}
        return {name: (store["rows"], (store["bytes"] or 0) > 0) for name, store in found.items()}

    for _ in range(600):  # what is pending is not counted yet
        if (found := sizes())["numbers"] == (3, True) and found["windows"][1]:
            break
        Event().wait(0.1)
    assert found["numbers"] == (3, True)
    assert found["windows"][0] >= 3
    assert asked.get("/v1/stores/numbers")["rows"] == 3


def test_the_last_epochs_say_what_they_read_and_where_the_time_went(asked):
    found = asked.get("/v1/epochs")["epochs"]
    assert [each["epoch"] for each in found] == sorted((each["epoch"] for each in found), reverse=True)
    assert {each["kind"] for each in found} <= {"inline", "spark", "tick"}
    read = [r for each in found for r in each["ranges"] if r["topic"] == asked.cluster.name("prices")]
    assert sum(r["end"] - r["start"] for r in read) == 5
    assert all(each["duration_us"] >= each["steps"]["commit"] > 0 for each in found)
    assert len(asked.get("/v1/epochs?limit=1")["epochs"]) == 1


def test_threads_and_steps_are_shown(asked):
    names = [thread["name"] for thread in asked.get("/debug/threads")["threads"]]
    assert {"penstock-admin", f"penstock-{asked.app.application_id}"} <= set(names)
    assert {"commit", "run lanes"} <= {step["step"] for step in asked.get("/debug/barriers")["steps"]}


def test_a_running_application_is_live_and_ready(asked):
    assert asked.get("/health/live")["missing"] == []
    ready = asked.get("/readyz")
    assert ready["broker"] == {"answers": True, "error": None, "missing_topics": []}
    assert ready["epoch"] >= 1


def test_a_step_that_takes_too_long_is_a_stall(asked, monkeypatch):
    """Held in an observer, so that the loop is in a step; the broker answers."""
    held, go = threading.Event(), threading.Event()

    def hold(step, epoch):
        if step == "commit" and not go.is_set():
            held.set()
            go.wait(60)

    monkeypatch.setitem(asked.app.config, "stall_limit_ms", -1)
    asked.app._loop.observers.append(hold)
    try:
        bound = asked.send("lines", ("stalled", "x", START))
        assert held.wait(60)
        dead = asked.get("/livez", 503)
        assert any("the step 'commit' of epoch" in what for what in dead["missing"])
        monkeypatch.setitem(asked.app.config, "stall_limit_ms", 300_000)
        assert asked.get("/livez")["missing"] == []
    finally:
        go.set()
        asked.app._loop.observers.remove(hold)
    assert asked.get("/v1/stores/counts/keys/stalled", params=bound)["value"] == 1


def test_pause_and_resume_over_http(asked):
    assert asked.client.post("/v1/pause", headers=WRITES).json()["paused"]
    bound = asked.send("lines", ("paused", "x", START))
    assert asked.get("/v1/stores/counts/keys/paused", 409, params={**bound, "wait_ms": 300})["status"] == 409
    assert asked.get("/readyz")["paused"]
    assert not asked.client.post("/v1/resume", headers=WRITES).json()["paused"]
    assert asked.get("/v1/stores/counts/keys/paused", params=bound)["value"] == 1


def test_the_cache_is_changed_while_the_application_runs(asked):
    """With none every update leaves, in one epoch too; a cache forwards the last one."""
    found = {}
    for size in (0, None):
        key, before = f"cache{size}", len(asked.cluster.numbers(asked.cluster.name("out")))
        put = asked.client.put("/v1/config", headers=WRITES, json={"cache_max_bytes": size})
        assert put.json()["cache_max_bytes"] == size == asked.get("/v1/config")["cache_max_bytes"]
        asked.client.post("/v1/pause", headers=WRITES)
        bound = asked.send("lines", *((key, "x", START) for _ in range(5)))
        asked.client.post("/v1/resume", headers=WRITES)
        asked.get(f"/v1/stores/counts/keys/{key}", params=bound)
        found[size] = [n for name, n in asked.cluster.numbers(asked.cluster.name("out"))[before:] if name == key]
    assert found == {0: [1, 2, 3, 4, 5], None: [5]}
    for body, said in (({"shards": 2}, "cannot be changed"), ({"cache_max_bytes": -1}, "at least 0"), ([], "object")):
        refused = asked.client.put("/v1/config", headers=WRITES, json=body)
        assert refused.status_code == 400
        assert said in refused.json()["error"]
    assert asked.client.put("/v1/config", json={"cache_max_bytes": 0}).status_code == 401


def test_a_record_that_was_produced_is_read_by_its_offset(asked):
    for number in range(1, 6):
        bound = asked.send("lines", ("mine", "x", START))
        found = asked.get("/v1/stores/counts/keys/mine", params=bound)
        assert found["value"] == number
        assert found["position"][asked.cluster.name("lines")]["0"] >= json.loads(bound["position"]).popitem()[1]["0"]
    later = found["epoch"] + 1_000_000
    late = asked.get(f"/v1/stores/counts/keys/mine?min_epoch={later}&wait_ms=100", 409)
    assert late["epoch"] >= found["epoch"]
    assert "wait_ms" in late["remedy"]


def test_what_would_have_to_wait_is_left_to_a_thread(asked):
    """A shard that is open at the last barrier is read at once; one that another thread is opening is not waited for."""
    queries = asked.app._engine.queries
    assert asked.app.query("counts", KeyQuery("ant")).value == 3
    assert queries.query_at_once("counts", KeyQuery("ant")).value == 3
    shard = asked.app.metadata_for_key("counts", "ant").shard
    with queries._views._slots[shard].lock:
        assert queries.query_at_once("counts", KeyQuery("ant")) is None
    with pytest.raises(UnknownStore):
        queries.query_at_once("count", KeyQuery("ant"))


def test_keys_of_every_serde(asked):
    assert asked.get("/v1/stores/counts/keys/ant")["value"] == 3
    assert asked.get(f"/v1/stores/counts/keys/{quote('bat/x y', safe='')}")["key"] == "bat/x y"
    assert asked.get("/v1/stores/counts/keys/bat/x y")["value"] == 1
    assert asked.get("/v1/stores/counts/keys", params={"key_json": '"ant"'})["value"] == 3
    assert asked.get("/v1/stores/counts/keys", params={"key_base64": base64.b64encode(b"ant").decode()})["value"] == 3
    assert asked.get("/v1/stores/numbers/keys/11")["value"] == {"n": 11}
    raw = asked.get("/v1/stores/raw/keys/" + quote(base64.b64encode(b"\xff7").decode(), safe=""))
    assert raw["key"] == {"base64": base64.b64encode(b"\xff7").decode()}
    assert base64.b64decode(raw["value"]["base64"]) == b"7"
    assert asked.get('/v1/stores/objects/keys/{"id": 300}')["value"] == [300]
    assert asked.get("/v1/stores/everywhere/keys/de")["value"] == "Germany"
    assert asked.client.post("/v1/stores/numbers/keys", json={"key": 7}).json()["value"] == {"n": 7}


def test_a_key_that_is_not_there_is_404_with_the_barrier(asked):
    missing = asked.get("/v1/stores/counts/keys/nobody", 404)
    assert missing["found"] is False
    assert missing["epoch"] >= 1
    assert asked.get("/v1/stores/count/keys/x", 404)["error"].startswith(
        "there is no store 'count' (did you mean 'counts'"
    )


@pytest.mark.parametrize(
    "path",
    [
        "numbers/keys/seven",
        "numbers/keys/99999999999999999999999",
        "numbers/keys?key_json={",
        "numbers/keys?key_json={}",
        "numbers/keys",
        "raw/keys/%25%25",
        "counts/keys/%ff",
        "counts/keys?key_base64=%ff",
        "counts/keys?key_json=7",
        "counts/range?limit=0",
        "counts/range?limit=many",
        "counts/range?limit=100000000000000000000000000",
        "counts/keys/ant?position=here",
        "counts/keys/ant?position=[1]",
        'counts/keys/ant?position={"lines":{"0":"x"}}',
        "counts/keys/ant?min_epoch=-1",
        "counts/keys/ant?wait_ms=9999999",
        "counts/windows/ant",
        "windows/keys/ant",
        "windows/range",
        "sessions/keys/ant",
        "windows/windows/ant?from=later",
        "prices/versions/pear?as_of=now",
        "everywhere/changes",
        "prices/changes?snapshot=1",
        "counts/changes?since=x",
    ],
)
def test_what_cannot_be_asked_is_400_with_a_remedy(asked, path):
    refused = asked.get(f"/v1/stores/{path}", 400)
    assert refused["error"]
    assert refused["remedy"]


def test_a_key_of_a_megabyte(asked):
    bound = asked.send("lines", (LONG, "x", START))
    found = asked.client.post("/v1/stores/counts/keys", json={"key": LONG}, params=bound)
    assert found.status_code == 200
    assert found.json()["value"] == 1
    too_long = asked.client.post("/v1/stores/counts/keys", content=b'{"key": "' + b"x" * (5 << 20) + b'"}')
    assert too_long.status_code == 413
    rows = asked.get("/v1/stores/counts/range", params={"from": "kk", "to": "l"})["rows"]
    assert [len(row["key"]) for row in rows] == [len(LONG)]


class Line:
    """A connection on which bytes are sent as a test wants them."""

    def __init__(self, asked: Asked) -> None:
        place = asked.client.base_url
        self._socket = socket.create_connection((place.host, place.port), timeout=20)
        self._reader = self._socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._reader.close()
        self._socket.close()

    def send(self, *parts: bytes) -> "Line":
        for part in parts:
            self._socket.sendall(part)
            threading.Event().wait(0.05)  # each part comes by itself
        return self

    def answer(self):
        """Return the next answer: status, headers but the date, body."""
        status = int(self._reader.readline().split()[1])
        headers = dict(line.rstrip().lower().split(b": ", 1) for line in iter(self._reader.readline, b"\r\n"))
        body = self._reader.read(int(headers[b"content-length"]))
        assert headers.pop(b"date")
        return status, headers, json.loads(body)


def lookup(key: str, *headers: str, store="counts", version="1.1") -> bytes:
    """A request as a client sends it."""
    lines = [f"GET /v1/stores/{store}/keys/{key} HTTP/{version}", "Host: localhost", *headers, "", ""]
    return "\r\n".join(lines).encode()


BROWSER = (
    "Connection: keep-alive", "User-Agent: Mozilla/5.0", "Accept: text/html,*/*;q=0.8", "Accept-Encoding: gzip, br",
    "Accept-Language: de", "Cookie: a=b", "Upgrade-Insecure-Requests: 1", "Sec-Fetch-Mode: cors",
)  # fmt: skip


@pytest.fixture
def lookups(asked):
    """What answers look-ups as they arrive."""
    return PointLookups(asked.app.admin_asgi(), is_local).answer


@pytest.mark.parametrize(
    ("store", "key", "status"),
    [("counts", "ant", 200), ("counts", "bat%2Fx%20y", 200), ("counts", "bat/x%20y", 200), ("counts", "nobody", 404),
     ("numbers", "11", 200), ("raw", "_zc", 200), ("prices", "pear", 200), ("prices", "plum", 404),
     ("objects", "%7B%22id%22%3A300%7D", 200)],
)  # fmt: skip
def test_a_look_up_is_answered_where_it_arrives_as_by_the_ordinary_way(asked, lookups, store, key, status):
    with Line(asked) as line:  # asked twice: what is not open yet is opened for the first
        ordinary = line.send(lookup(key, store=store), lookup(key, "Connection: close", store=store))
        first, second = ordinary.answer(), ordinary.answer()
    assert first[0] == status
    assert second[1].pop(b"connection") == b"close"
    assert first == second
    for headers in ((), BROWSER):
        found = lookups(lookup(key, *headers, store=store))
        assert (found.status, json.loads(found.body)) == (status, first[2])


def test_what_is_no_plain_look_up_takes_the_ordinary_way(asked, lookups):
    asked.get("/v1/stores/counts/keys/ant")
    plain = lookup("ant")
    assert lookups(plain) is not None
    others = [
        plain + plain, plain[:-1], plain[:-2], plain + b"x", b"\r\n" + plain, plain.replace(b"GET", b"HEAD"),
        lookup("ant?wait_ms=5"), lookup("ant#x"), lookup("a nt"), lookup("\u00e4"), lookup("%ff"), lookup(""),
        lookup("a\tb"), lookup("a" * 9000), lookup("ant", store="count"), lookup("x", store="numbers"),
        lookup("ant", store="windows"), lookup("ant", version="1.0"),
        lookup("ant", "Connection: close"), lookup("ant", "Content-Length: 3"), lookup("ant", "Expect: 100-continue"),
        lookup("ant", "Transfer-Encoding: chunked"), lookup("ant", "Connection: Upgrade", "Upgrade: websocket"),
        lookup("ant", "no header"), lookup("ant", "Host: twice"), plain.replace(b"localhost", b"evil.example"),
        plain.replace(b"Host: localhost\r\n", b""),
    ]  # fmt: skip
    for other in others:
        assert lookups(other) is None, other


def test_requests_in_pieces_in_a_row_and_with_bodies_are_answered_in_their_order(asked):
    info = b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n"
    chunked = lookup("ant", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n"
    with Line(asked) as line:
        line.send(lookup("ant")[:30], lookup("ant")[30:])
        assert line.answer()[2]["key"] == "ant"
        line.send(lookup("ant") + lookup("bee") + lookup("nobody")[:50], lookup("nobody")[50:] + lookup("ant"))
        assert [line.answer()[2].get("key") for _ in range(4)] == ["ant", "bee", None, "ant"]
        line.send(info + lookup("bee"), lookup("ant"), info, lookup("ant"), chunked, lookup("bee"))
        found = [line.answer()[2] for _ in range(7)]
        assert [each.get("key") for each in found] == [None, "bee", "ant", None, "ant", "ant", "bee"]
        for key in ("ant", "bee") * 20:  # without waiting for an answer
            line.send(lookup(key))
        assert [line.answer()[2]["key"] for _ in range(40)] == ["ant", "bee"] * 20


def test_a_connection_stays_while_look_ups_come(asked, monkeypatch):
    """The ordinary way closes it some time after its last answer, and the server what has asked nothing for long."""
    monkeypatch.setattr(asked.app._admin._server._server.config, "timeout_keep_alive", 0.3)
    monkeypatch.setattr(connection, "LOOK_SECONDS", 0.3)
    with Line(asked) as line:
        line.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.answer()[0] == 200
        for _ in range(20):
            line.send(lookup("ant"))
            assert line.answer()[0] == 200
        threading.Event().wait(1)
        with pytest.raises((IndexError, OSError)):  # closed: there is no answer
            line.send(lookup("ant")).answer()


def test_look_ups_are_counted(asked):
    def counted() -> float:
        lines = asked.client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if "http_requests_total" in line and "/keys/" in line)

    before = counted()
    for _ in range(10):
        asked.get("/v1/stores/counts/keys/ant")
    assert counted() == before + 10


def test_windows_sessions_and_versions(asked):
    rows = asked.get("/v1/stores/windows/windows/ant")["rows"]
    assert [(row["key"], row["window"]["start"] - START, row["value"]) for row in rows] == [
        ("ant", 0, 2),
        ("ant", 2000, 1),
    ]
    assert rows[0]["window"]["end"] - rows[0]["window"]["start"] == 1000
    late = asked.get("/v1/stores/windows/windows", params={"from": START + 2000, "to": START + 2000})["rows"]
    assert {row["key"] for row in late} == {"ant", "bat/x y"}
    sessions = asked.get("/v1/stores/sessions/sessions/ant")["rows"]
    assert [(row["value"], row["window"]["end"] - START) for row in sessions] == [("ac", 300), ("d", 2500)]
    versions = asked.get("/v1/stores/prices/versions/pear")["rows"]
    assert [(row["value"], row["timestamp"] - START) for row in versions] == [("1", 0), ("2", 1000), ("3", 2000)]
    assert versions[-1]["valid_to"] is None
    (one,) = asked.get(f"/v1/stores/prices/versions/pear?as_of={START + 1500}")["rows"]
    assert one["value"] == "2"
    assert asked.get("/v1/stores/prices/versions/plum")["rows"][0]["valid_to"] == START + 500
    assert asked.get("/v1/stores/prices/keys/pear")["value"] == "3"
    assert asked.get("/v1/stores/prices/keys/plum", 404)["found"] is False


def test_stores_are_described(asked):
    found = {store["name"]: store for store in asked.get("/v1/stores")["stores"]}
    assert found["counts"]["key"] == "Serdes.string"
    assert found["everywhere"]["global"]
    assert not found["everywhere"]["changes"]
    assert asked.get("/v1/stores/numbers?rows=1")["rows"] == 3
    assert found["windows"]["window_size_ms"] == 1000


#: what to ask where a path has places to fill in, or a request has a body: path → (path, body)
FILLED = {
    "/v1/stores/{store}": ("/v1/stores/counts", None),
    "GET /v1/stores/{store}/keys": ('/v1/stores/counts/keys?key_json="ant"', None),
    "POST /v1/stores/{store}/keys": ("/v1/stores/counts/keys", {"key": "ant"}),
    "/v1/stores/{store}/keys/{key:path}": ("/v1/stores/counts/keys/ant", None),
    "/v1/stores/{store}/range": ("/v1/stores/counts/range", None),
    "/v1/stores/{store}/prefix/{prefix:path}": ("/v1/stores/counts/prefix/a", None),
    "/v1/stores/{store}/windows": ("/v1/stores/windows/windows", None),
    "/v1/stores/{store}/windows/{key:path}": ("/v1/stores/windows/windows/ant", None),
    "/v1/stores/{store}/sessions/{key:path}": ("/v1/stores/sessions/sessions/ant", None),
    "/v1/stores/{store}/versions/{key:path}": ("/v1/stores/prices/versions/pear", None),
    "/v1/stores/{store}/changes": ("/v1/stores/counts/changes?snapshot=1", None),
    "/v1/dead-letters/{partition:int}/{offset:int}": ("/v1/dead-letters/0/0", None),
    "/v1/dead-letters/redrive": ("/v1/dead-letters/redrive", {"all": True}),
    "PUT /v1/config": ("/v1/config", {"stall_limit_ms": 300_000}),
    "/v1/loggers/{name}": ("/v1/loggers/penstock.nobody", {"level": "INFO"}),
}


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_every_endpoint_answers_of_a_running_application(asked, endpoint):
    named = f"{endpoint.method} {endpoint.path}"
    path, body = FILLED.get(named) or FILLED.get(endpoint.path) or (endpoint.path, None)
    expected = (
        404 if endpoint.path.startswith("/v1/dead-letters") else 200
    )  # this one keeps none: see test_dead_letters
    for each in (path, *endpoint.aliases):
        with asked.client.stream(endpoint.method, each, headers=WRITES, json=body) as answer:
            assert answer.status_code == expected
            if endpoint.streams:
                assert answer.headers["content-type"].startswith("text/event-stream")
                continue
            found = answer.read()
        assert found
        if endpoint.path.startswith("/v1/stores"):
            assert {"epoch", "position"} <= json.loads(found).keys()


def test_stores_may_be_asked_for_at_a_bound_too(asked):
    epoch = asked.get("/v1/stores")["epoch"]
    assert asked.get(f"/v1/stores?min_epoch={epoch}")["epoch"] >= epoch
    assert asked.get(f"/v1/stores/counts?min_epoch={epoch + 1_000_000}", 409)["remedy"]


def test_ranges_and_prefixes(asked):
    rows = asked.get("/v1/stores/numbers/range?from=7&to=11")["rows"]
    assert [row["key"] for row in rows] == [7, 11]
    assert [row["key"] for row in asked.get("/v1/stores/numbers/range?reverse=true&limit=2")["rows"]] == [300, 11]
    assert asked.get("/v1/stores/counts/prefix/an")["rows"][0]["key"] == "ant"
    assert "timestamp" in asked.get("/v1/stores/counts/range?to=ant")["rows"][0]
    assert asked.get("/v1/stores/numbers/range?from_json=8&to_json=12")["rows"][0]["key"] == 11


def test_pages_stay_at_one_epoch(asked):
    """While rows are added: all pages together are what the store was at the first page."""
    bound = asked.send("lines", *((f"page{n:03}", "x", START) for n in range(30)))
    asked.get("/v1/stores/counts/keys/page029", params=bound)
    options = {"from": "page", "to": "pagf", "limit": 10}
    page = asked.get("/v1/stores/counts/range", params=options)
    first, found = page, list(page["rows"])
    bound = asked.send("lines", *((f"page{n:03}", "x", START) for n in range(60)))
    asked.get("/v1/stores/counts/keys/page059", params=bound)
    while page["cursor"]:
        again = {**options, "cursor": page["cursor"]}
        page = asked.get("/v1/stores/counts/range", params=again)
        assert asked.get("/v1/stores/counts/range", params=again) == page  # the answer may have been lost
        found += page["rows"]
        assert page["epoch"] == first["epoch"]
    assert [(row["key"], row["value"]) for row in found] == [(f"page{n:03}", 1) for n in range(30)]
    early = {**options, "cursor": first["cursor"]}
    assert asked.get("/v1/stores/counts/range", 410, params=early)["remedy"].startswith("begin again")


def test_a_cursor_of_another_request_or_past_its_time_is_refused(asked, monkeypatch):
    page = asked.get("/v1/stores/numbers/range?limit=1")
    other = {"from": "8", "limit": 1, "cursor": page["cursor"]}
    assert asked.get("/v1/stores/numbers/range", 400, params=other)["error"] == "the cursor is of another request"
    monkeypatch.setattr(cursors, "CURSOR_MS", 0)
    page = asked.get("/v1/stores/numbers/range?limit=1")
    assert asked.get("/v1/stores/numbers/range", 410, params={"limit": 1, "cursor": page["cursor"]})
    assert asked.get("/v1/stores/numbers/range", 410, params={"limit": 1, "cursor": "nonsense"})


def test_there_are_only_so_many_cursors(asked, monkeypatch):
    monkeypatch.setattr(cursors, "MOST_CURSORS", 2)
    asked.app.admin_asgi().state.cursors.close()
    held = [asked.client.get("/v1/stores/numbers/range?limit=1") for _ in range(3)]
    assert [answer.status_code for answer in held] == [200, 200, 503]
    cursor = held[0].json()["cursor"]
    while cursor:  # read to its end, it makes room
        cursor = asked.get("/v1/stores/numbers/range", params={"limit": 1, "cursor": cursor})["cursor"]
    assert asked.get("/v1/stores/numbers/range?limit=1")["cursor"]
    asked.app.admin_asgi().state.cursors.close()


def test_rows_come_as_lines_if_they_are_asked_for_so(asked):
    with asked.client.stream("GET", "/v1/stores/numbers/range", headers={"Accept": "application/x-ndjson"}) as answer:
        head, *rows, end = [json.loads(line) for line in answer.iter_lines()]
    assert head["epoch"] >= 1
    assert [row["key"] for row in rows] == [7, 11, 300]
    assert end == {"end": True, "rows": 3}


class Feed:
    """Server-sent events of a stream, one after the other."""

    def __init__(self, answer):
        assert answer.status_code == 200, answer.read()
        self._lines = answer.iter_lines()

    def __next__(self):
        found = {}
        for line in self._lines:
            if not line:
                if "event" in found:
                    return found["event"], json.loads(found["data"]), found.get("id")
                found = {}
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                found[name] = value
        raise StopIteration

    def until(self, stop):
        """Return the rows of each event up to one that ``stop`` says is the last, and the last progress mark."""
        rows, mark = [], None
        while not stop(rows, mark):
            kind, data, number = next(self)
            if kind == "progress":
                assert str(data["epoch"]) == number
                mark = data
            else:
                rows += data
        return rows, mark


def test_changes_follow_a_snapshot_and_go_on_after_the_last_mark(asked):
    bound = asked.send("lines", ("feed", "x", START))
    asked.get("/v1/stores/counts/keys/feed", params=bound)
    with asked.client.stream("GET", "/v1/stores/counts/changes?snapshot=1") as answer:
        feed = Feed(answer)
        rows, mark = feed.until(lambda rows, mark: mark)
        table = {row["key"]: row["value"] for row in rows}
        assert table["feed"] == 1
        for number in range(2, 5):
            asked.send("lines", ("feed", "x", START))
            changed, mark = feed.until(lambda rows, mark: any(r["key"] == "feed" for r in rows) and mark)
            assert [row["value"] for row in changed if row["key"] == "feed"] == [number]
    for _ in range(2):
        bound = asked.send("lines", ("feed", "x", START))
        asked.get("/v1/stores/counts/keys/feed", params=bound)
    for options in ({"headers": {"Last-Event-ID": str(mark["epoch"])}}, {"params": {"since": mark["epoch"]}}):
        with asked.client.stream("GET", "/v1/stores/counts/changes", **options) as answer:
            rows, _ = Feed(answer).until(lambda rows, mark: any(row["value"] == 6 for row in rows) and mark)
        assert [row["value"] for row in rows if row["key"] == "feed"] == [5, 6]


def test_changes_that_are_not_kept_are_410(asked, monkeypatch):
    old = {"params": {"since": 0}}
    assert "snapshot=1" in asked.get("/v1/stores/sessions/changes", 410, **old)["remedy"]
    epoch = asked.get("/v1/info")["epoch"]
    assert asked.get("/v1/stores/sessions/changes", 410, params={"since": epoch + 1000})
    monkeypatch.setattr(change_ring, "MOST_EPOCHS", 1)
    for _ in range(3):
        bound = asked.send("lines", ("old", "x", START))
        asked.get("/v1/stores/counts/keys/old", params=bound)
    assert asked.get("/v1/stores/sessions/changes", 410, params={"since": epoch})


def test_a_follower_that_does_not_read_is_dropped_and_the_engine_goes_on(asked, monkeypatch):
    """It asks for changes and reads nothing; some megabytes of them come. Others are answered, and it is disconnected."""
    monkeypatch.setattr(connection, "LOOK_SECONDS", 0.1)
    host, _, port = asked.app.admin_address.rpartition(":")
    with socket.socket() as stalled:
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.connect((host, int(port)))
        stalled.sendall(b"GET /v1/stores/sessions/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert subscribers(asked, 1)
        for number in range(12):
            bound = asked.send("lines", *((f"{number}-{n}", "x" * 50_000, START + 3000) for n in range(15)))
            assert asked.get(f"/v1/stores/counts/keys/{number}-14", params=bound)["value"] == 1
        assert subscribers(asked, 0)
    assert asked.get("/livez")["missing"] == []


def subscribers(asked, count):
    """Wait until there are so many streams."""
    for _ in range(600):
        if (
            f'penstock_subscribers{{application_id="{asked.app.application_id}"}} {count}.0'
            in asked.client.get("/metrics").text
        ):
            return True
        threading.Event().wait(0.05)
    return False


def test_changes_of_windows_and_sessions_have_their_times(asked):
    windows = asked.client.stream("GET", "/v1/stores/windows/changes?snapshot=1")
    sessions = asked.client.stream("GET", "/v1/stores/sessions/changes?snapshot=1")
    with windows as first, sessions as second:
        feeds = [Feed(first), Feed(second)]
        for feed in feeds:
            rows, _ = feed.until(lambda rows, mark: mark)
            assert any(row["key"] == "ant" and row["window"]["start"] == START for row in rows)
        asked.send("lines", ("when", "x", START + 3100))
        for feed, end in zip(feeds, (START + 4000, START + 3100), strict=True):
            rows, _ = feed.until(lambda rows, mark: any(row["key"] == "when" for row in rows))
            assert [row["window"]["end"] for row in rows if row["key"] == "when"] == [end]


def test_while_state_is_restored_the_answer_is_to_come_later(asked, spark_session, tmp_path, monkeypatch):
    """Held in the restore: live, not ready, stores 503; then all is there."""
    cluster = asked.cluster
    start = Starter(spark_session, cluster, tmp_path / "state")
    start.application_id = cluster.name("restored")
    builder = StreamsBuilder()
    builder.stream(cluster.topic("before"), **TEXT).group_by_key().count(store="counts")
    cluster.send(cluster.name("before"), *((f"k{n}", "x", START) for n in range(200)))
    bound = {(cluster.name("before"), 0): 199}

    async def first_run():
        async with start.app(builder, admin="0") as app:
            assert app.query("counts", KeyQuery("k7"), at_least=bound, wait_ms=60_000).value == 1

    asyncio.run(first_run())
    start.forget()
    held, go = threading.Event(), threading.Event()
    monkeypatch.setattr(recovery, "RESTORE_ROWS", 10)
    app = start.app(builder, admin="0")
    app.on_restore(lambda progress: None if progress.done else (held.set(), go.wait(60)))
    try:
        app.start()
        assert held.wait(120)
        with httpx.Client(base_url=f"http://{app.admin_address}", timeout=30) as client:
            for path in ("/v1/stores/counts/keys/k7", "/v1/stores/counts/changes", "/v1/offsets", "/readyz"):
                later = client.get(path)
                assert later.status_code == 503, path
                assert later.headers["retry-after"] == "1"
                assert later.json()["restore"]["remaining_offsets"] > 0
            assert client.get("/livez").status_code == 200
            assert any("restoring" in what for what in client.get("/health/ready").json()["missing"])
            go.set()
            app.wait_until_running(120_000)
            assert client.get("/readyz").json()["restore"] == {
                "restored_rows": 200,
                "remaining_offsets": 0,
                "remaining_by_store": {},
                "done": True,
            }
            assert client.get("/v1/stores/counts/keys/k7").json()["value"] == 1
    finally:
        go.set()
        start.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{app.admin_address}/livez")


def test_an_application_of_the_users_is_served_beside_it(asked):
    assert asked.client.get("/own/count?of=ant").text == "3"


def test_ends_of_epochs_are_told(asked):
    with asked.client.stream("GET", "/v1/events") as answer:
        feed = Feed(answer)
        assert next(feed)[1]["state"] == "RUNNING"
        asked.send("lines", ("told", "x", START))
        kind, data, number = next(feed)
    assert (kind, str(data["epoch"])) == ("epoch", number)
    assert data["records"] >= 1


def test_metrics_are_those_of_the_table_and_of_the_application(asked):
    answer = asked.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    for name, family in families.items():
        own = name.removeprefix("penstock_")
        if own.startswith("user_"):
            continue
        metric = BY_NAME.get(own) or BY_NAME[f"{own}_total"]
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == {"application_id", *metric.labels}, sample
            assert sample.labels["application_id"] == asked.app.application_id
    told = {
        sample.name: sample.value
        for family in families.values()
        for sample in family.samples
        if len(sample.labels) == 1
    }
    same = asked.app.metric_samples()
    totals = asked.app.metrics()
    read = {(row["topic"], row["partition"]): row["value"] for row in same["penstock_records_consumed_total"]}
    assert sum(read.values()) == totals["records_in"] > 0
    assert read[asked.cluster.name("prices"), "0"] == 5
    asking = {(row["store"], row["query"]): row["value"] for row in same["penstock_queries_total"]}
    assert asking["prices", "VersionedKeyQuery"] >= 1
    (exchanged,) = same["penstock_exchange_bytes_total"]
    assert exchanged["value"] > 0
    (seen,) = same["penstock_user_seen_total"]
    assert (seen["node"], seen["value"]) == ("KSTREAM-PROCESSOR-0000000011", 3)
    assert {row["value"] for row in same["penstock_user_newest"]} == {300}
    assert [(row["count"], row["sum"]) for row in same["penstock_user_numbers"]] == [(3, 318)]
    assert "penstock_user_seen_total{application_id=" in answer.text
    assert told["penstock_epoch"] == totals["epoch"]
    produced = {row["topic"]: row["value"] for row in same["penstock_records_produced_total"]}
    assert produced == totals["records_out"]
    changed = {row["store"]: row["value"] for row in same["penstock_changelog_rows_total"]}
    assert changed["numbers"] == 3
    assert {row["process"] for row in same["penstock_process_resident_bytes"]} >= {"driver", "jvm"}
    work = {row["node"]: row["value"] for row in same["penstock_node_records_in_total"]}
    assert sum(work.get(f"KSTREAM-SOURCE-{number:010}", 0) for number in range(20)) <= totals["records_in"]
    assert work["KSTREAM-SOURCE-0000000000"] == work["KSTREAM-AGGREGATE-0000000001"] >= 5
    assert work["KSTREAM-SINK-0000000003"] == produced[asked.cluster.name("out")]
    forwarded = {row["node"]: row["value"] for row in same["penstock_node_records_out_total"]}
    assert forwarded["KSTREAM-AGGREGATE-0000000001"] == work["KSTREAM-SINK-0000000003"]
    assert {row["node"] for row in same["penstock_node_seconds_total"] if row["value"] > 0} >= {
        "KSTREAM-SINK-0000000003"
    }
    assert same.keys() >= {
        f"penstock_{name}" for name in ("epoch_step_seconds", "lag_records", "partition_idle", "info")
    }


def test_metrics_may_have_the_names_of_kafka_streams(asked, monkeypatch):
    monkeypatch.setitem(asked.app.config, "metrics_names", "both")
    both = asked.client.get("/metrics").text
    assert "kafka_stream_thread_commit_total{" in both
    assert "penstock_epochs_total{" in both
    monkeypatch.setitem(asked.app.config, "metrics_names", "kafka_streams")
    assert "penstock_epochs_total{" not in asked.client.get("/metrics").text
    opened = asked.client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert opened.text.endswith("# EOF\n")
