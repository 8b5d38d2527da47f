"""The server by itself: who may ask, how long, how much; nonsense is answered, and a client that stalls is disconnected."""

import asyncio
import json
import re
import socket
import sys
import threading
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from served import TOKEN, words

from penstock import App, ConfigError, Serdes
from penstock.admin import asgi, connection, control
from penstock.admin.routes import ENDPOINTS
from penstock.admin.server import AdminServer
from penstock.config import load

WRITES = {"Authorization": f"Bearer {TOKEN}"}


def raw(client: httpx.Client, data: bytes) -> bytes:
    """Send bytes as they are; return the whole answer, until the server closes the connection."""
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=20) as line:
        line.sendall(data)
        found = b""
        while part := line.recv(65536):
            found += part
    return found


def test_an_address_may_be_a_port_alone_and_is_one_of_this_machine():
    assert load({"admin": 8080}, environ={})["admin"] == "127.0.0.1:8080"
    assert load({}, environ={"PENSTOCK_ADMIN": "0.0.0.0:80"})["admin"] == "0.0.0.0:80"
    assert load({"admin": "[::1]:0"}, environ={})["admin"] == "[::1]:0"


@pytest.mark.parametrize("wrong", ["here", "a:b", "host:70000", "::1:80", 7.5])
def test_what_is_no_address_is_refused_with_the_form(wrong):
    with pytest.raises(ConfigError, match="admin="):
        load({"admin": wrong}, environ={})


def test_an_address_that_is_taken_is_refused_before_anything_starts():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        app = App(words(), application_id="words", admin=f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(ConfigError, match=r"cannot listen there.*port 0 chooses a free one"):
            app.start()
    assert app.state == "CREATED"
    assert app.close()


def test_a_check_or_a_mounted_application_without_a_server_is_refused():
    app = App(words(), application_id="words")
    app.health_check()(lambda: True)
    with pytest.raises(ConfigError, match="need a server: set admin="):
        app.start()
    with pytest.raises(ConfigError, match="use one of live, ready"):
        app.health_check(group="alive")
    with pytest.raises(ConfigError, match="a path of your own"):
        app.mount("/v1", None)


def test_other_threads_wait_less_for_the_interpreter_while_there_is_a_server():
    before = sys.getswitchinterval()
    server = AdminServer(None, "127.0.0.1:0")
    server.start()
    httpx.get(f"http://{server.address}/")  # no application: 500, and it runs
    assert sys.getswitchinterval() < before / 2
    server.stop()
    assert sys.getswitchinterval() == before


def test_the_token_is_a_secret(serve):
    _, client = serve(kafka={"sasl.password": "hush-hush"}, user_config={"api": "hush-hush"})
    found = client.get("/v1/config")
    assert found.json()["admin_token"] == "***"
    assert found.json()["application_id"] == "words"
    assert TOKEN not in found.text
    assert "hush-hush" not in found.text


def test_settings_that_are_functions_or_serdes_are_shown_by_name(serve):
    _, client = serve(
        default_key_serde=Serdes.int64, default_timestamp_extractor=len, on_processing_error=lambda error: "skip"
    )
    found = client.get("/v1/config").json()
    assert (found["default_key_serde"], found["default_value_serde"]) == ("Serdes.int64", "json")
    assert "len" in found["default_timestamp_extractor"]
    assert __file__ in found["on_processing_error"]


def test_what_changes_something_needs_the_token(serve):
    app, client = serve()
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": "Bearer é"}):
        answer = client.post("/v1/pause", headers={k: v.encode() for k, v in headers.items()})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    assert not app.paused
    assert client.post("/v1/pause", headers=WRITES).json()["paused"]
    assert app.paused
    assert not client.post("/v1/resume", headers=WRITES).json()["paused"]
    _, closed = serve(admin_token=None)
    refused = closed.post("/v1/pause", headers=WRITES)
    assert refused.status_code == 403
    assert "admin_token" in refused.json()["remedy"]


def test_the_level_of_a_logger_is_set(serve):
    _, client = serve()
    found = client.put("/v1/loggers/penstock.made.up", json={"level": "DEBUG"}, headers=WRITES)
    assert found.json() == {"logger": "penstock.made.up", "level": "DEBUG", "effective": "DEBUG"}
    for body in (b"", b"{", b"[]", b'{"level": "LOUD"}', b'{"level": 10}'):
        refused = client.put("/v1/loggers/penstock.made.up", content=body, headers=WRITES)
        assert refused.status_code == 400
        assert "DEBUG" in refused.json()["remedy"]


def test_a_body_that_is_too_long_or_does_not_come_is_refused(serve, monkeypatch):
    monkeypatch.setattr(control, "BODY_SECONDS", 0.2)
    _, client = serve()
    assert client.put("/v1/loggers/x", content=b"x" * 70_000, headers=WRITES).status_code == 413
    head = (
        f"PUT /v1/loggers/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 9\r\n\r\n"
    )
    assert b" 408 " in raw(client, head.encode() + b"{").partition(b"\r\n")[0]


def test_a_request_that_takes_too_long_is_ended(serve, monkeypatch):
    short = tuple(replace(endpoint, seconds=0.1) for endpoint in ENDPOINTS)
    monkeypatch.setattr(asgi, "ENDPOINTS", short)
    app, client = serve()

    @app.health_check(group="live")
    async def never():
        await asyncio.sleep(3600)

    refused = client.get("/health/live")
    assert refused.status_code == 503
    assert "no answer within" in refused.json()["error"]
    assert client.get("/v1/info").status_code == 200


def test_a_request_for_another_host_is_refused(serve):
    _, client = serve()
    assert client.get("/v1/info", headers={"Host": "localhost:1"}).status_code == 200
    refused = client.get("/v1/info", headers={"Host": "evil.example"})
    assert refused.status_code == 403
    assert "localhost" in refused.json()["remedy"]


def test_unknown_paths_methods_and_parameters_are_named(serve):
    _, client = serve()
    missing = client.get("/v1/topolgy")
    assert missing.status_code == 404
    assert "did you mean '/v1/topology'" in missing.json()["remedy"]
    wrong = client.post("/v1/info")
    assert wrong.status_code == 405
    assert "GET" in wrong.json()["remedy"]
    for address in ("/v1/topology?fromat=svg", "/v1/topology?format=png", "/v1/epochs?limt=3"):
        refused = client.get(address)
        assert refused.status_code == 400, address
        assert refused.json().keys() >= {"status", "error", "remedy"}


def test_a_topology_has_four_forms(serve):
    app, client = serve()
    assert client.get("/v1/topology").json()["stores"][0]["name"] == "counts"
    assert client.get("/topology?format=text").text == app.topology.describe()
    assert client.get("/v1/topology?format=mermaid").text.startswith("flowchart")
    picture = client.get("/v1/topology?format=svg")
    assert picture.headers["content-type"].startswith("image/svg+xml")
    assert "<svg" in picture.text


@pytest.mark.parametrize("path", ["/v1/offsets", "/v1/watermarks", "/watermarks", "/v1/epochs"])
def test_before_there_is_state_the_answer_is_to_come_later(serve, path):
    _, client = serve()
    answer = client.get(path)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"


def test_every_endpoint_is_described(serve):
    _, client = serve()
    found = client.get("/openapi.json").json()
    described = {(path, method) for path, methods in found["paths"].items() for method in methods}
    for endpoint in ENDPOINTS:
        for path in (endpoint.path, *endpoint.aliases):
            assert (re.sub(r":\w+}", "}", path), endpoint.method.lower()) in described
        assert endpoint.summary, endpoint.path


def test_a_head_request_has_no_body(serve):
    _, client = serve()
    answer = client.head("/livez")
    assert answer.status_code == 200
    assert answer.content == b""


def test_an_application_that_has_not_started_lives_and_is_not_ready(serve):
    app, client = serve()

    @app.health_check(group="live")
    def disk():
        return True

    @app.health_check()
    async def cache():
        raise OSError("the cache is away")

    live = client.get("/health/live")
    assert (live.status_code, live.json()["checks"]) == (200, {"disk": "ok"})
    ready = client.get("/health/ready")
    assert ready.status_code == 503
    assert ready.json()["checks"] == {"cache": "OSError: the cache is away"}
    assert any("created" in what for what in ready.json()["missing"])
    assert any("broker does not answer" in what for what in ready.json()["missing"])


GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a client that speaks TLS
    b"GET\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"GET /v1/info?" + b"a" * 400_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"x" * 70_000,
    b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"\r\n\r\n\r\n\r\nnonsense\r\n\r\n",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda data: data[:20])
def test_nonsense_is_answered_and_the_connection_closed(serve, garbage):
    _, client = serve()
    found = raw(client, garbage)
    assert b" 400 " in found.partition(b"\r\n")[0] or b" 404 " in found.partition(b"\r\n")[0]
    assert "remedy" in json.loads(found.rpartition(b"\r\n\r\n")[2])
    assert client.get("/livez").status_code == 200


def test_a_client_that_leaves_in_the_middle_of_its_request_fills_no_log(serve, caplog):
    _, client = serve()
    head = (
        f"PUT /v1/loggers/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 9\r\n\r\n"
    )
    for _ in range(3):
        with socket.create_connection((client.base_url.host, client.base_url.port), timeout=20) as line:
            line.sendall(head.encode() + b"{")
    while 'route="/v1/loggers/{name}"} 3.0' not in client.get("/metrics").text:
        threading.Event().wait(0.01)
    of_servers = ("penstock.admin", "uvicorn", "asyncio", "starlette")  # others in this process may log what they like
    assert [record for record in caplog.records if record.name.startswith(of_servers)] == []


def test_a_client_that_sends_its_request_too_slowly_is_disconnected(serve, monkeypatch):
    monkeypatch.setattr(connection, "LOOK_SECONDS", 0.1)
    _, client = serve()
    assert raw(client, b"GET /livez HTTP/1.1\r\nHost:") == b""


def test_a_client_that_does_not_read_is_disconnected_and_others_are_answered(serve, monkeypatch):
    monkeypatch.setattr(connection, "LOOK_SECONDS", 0.1)
    _, client = serve()
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=20) as stalled:
        stalled.sendall(b"GET /endless/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.get("/livez").status_code == 200
        ended = threading.Event()

        def look() -> None:
            """An aborted connection refuses to be written to, sooner or later."""
            try:
                while not ended.wait(0.05):
                    stalled.sendall(b"\r\n")
            except OSError:
                ended.set()

        looking = threading.Thread(target=look)
        looking.start()
        assert ended.wait(20)
        looking.join()
    assert client.get("/livez").status_code == 200


def test_there_are_only_so_many_connections(serve, monkeypatch):
    monkeypatch.setattr(connection, "MOST_CONNECTIONS", 3)
    _, client = serve()
    place = (client.base_url.host, client.base_url.port)
    held = [socket.create_connection(place, timeout=20) for _ in range(3)]
    for line in held:  # each is known to the server once it has answered
        line.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.recv(20).startswith(b"HTTP/1.1 200")
    assert b" 503 " in raw(client, b"").partition(b"\r\n")[0]
    for line in held:
        line.close()


def test_changes_of_the_state_are_told_as_they_come(serve):
    app, client = serve()
    with client.stream("GET", "/v1/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines) == "event: state"
        assert json.loads(next(lines).removeprefix("data: "))["state"] == "CREATED"
        app.close()
        seen = [line for line in lines_until(lines, "NOT_RUNNING") if line.startswith("data: ")]
    states = [json.loads(line.removeprefix("data: "))["state"] for line in seen]
    assert states == ["PENDING_SHUTDOWN", "NOT_RUNNING"]


def lines_until(lines, word):
    for line in lines:
        yield line
        if f'"state":"{word}"' in line:
            return


def test_every_endpoint_is_in_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
    for endpoint in ENDPOINTS:
        for path in (endpoint.path, *endpoint.aliases):
            shown = re.sub(r":\w+}", "}", path)
            assert re.search(rf"{re.escape(shown)}(?![\w/])", text), path
