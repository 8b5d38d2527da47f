"""In another program: the admin endpoints inside a FastAPI application, and a FastAPI application beside them."""

import asyncio
import os

import httpx
import pytest
from fastapi import FastAPI
from served import words
from tests.app.conftest import Cluster, Starter

from penstock import App, Serdes, StreamsBuilder
from penstock.query.queries import KeyQuery

START = 1_600_000_020_000


def asks(program, *paths):
    """Return the answers of an ASGI application, without a server."""

    async def ask():
        transport = httpx.ASGITransport(program)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return [await client.get(path, follow_redirects=True) for path in paths]

    return asyncio.run(ask())


def test_the_endpoints_and_the_page_are_served_below_a_path_of_fastapi():
    app = App(words(), application_id="inside")
    program = FastAPI()

    @program.get("/own")
    def own():
        return {"mine": True}

    program.mount("/streams", app.admin_asgi())
    paths = (
        "/own",
        "/streams/health/live",
        "/streams/health/ready",
        "/streams/v1/topology?format=text",
        "/streams/openapi.json",
    )
    mine, live, ready, topology, described = asks(program, *paths)
    assert mine.json() == {"mine": True}
    assert (live.status_code, ready.status_code) == (200, 503)
    assert topology.text == app.topology.describe()
    assert "/v1/stores/{store}/keys/{key}" in described.json()["paths"]
    page, script = asks(program, "/streams/", "/streams/page/main.js")
    assert "<title>" in page.text
    assert script.status_code == 200
    for name in ("page/main.js", "page/page.css"):
        assert f'"{name}"' in page.text or f'"./{name}"' in page.text, "the page finds its files below any path"


@pytest.fixture
def start(kafka_broker, spark_session, tmp_path):
    cluster = Cluster(kafka_broker.bootstrap_servers, f"inside-{os.getpid()}")
    made = Starter(spark_session, cluster, tmp_path / "state")
    made.cluster = cluster
    yield made
    made.close()
    cluster.close()


def test_fastapi_and_an_application_in_one_event_loop(start):
    cluster = start.cluster
    lines = cluster.topic("lines")
    cluster.send(lines, ("k", "pear pear", START))
    builder = StreamsBuilder()
    stream = builder.stream(lines, key=Serdes.string, value=Serdes.string).flat_map_values(str.split)
    stream.group_by(lambda _, word: word, value=Serdes.string).count(store="counts")
    program, app = FastAPI(), start.app(builder, admin="0")
    app.mount("/own", program)

    @program.get("/count/{word}")
    def count(word: str):
        return {"count": app.query("counts", KeyQuery(word), at_least={(lines, 0): 0}, wait_ms=60_000).value}

    async def main():
        async with app, httpx.AsyncClient(base_url=f"http://{app.admin_address}", timeout=90) as client:
            beats = 0

            async def beat():
                nonlocal beats
                while True:
                    await asyncio.sleep(0.01)
                    beats += 1

            beating = asyncio.create_task(beat())
            answer = await client.get("/own/count/pear")
            beating.cancel()
            return answer.json(), beats, app.state

    answer, beats, state = asyncio.run(main())
    assert answer == {"count": 2}
    assert beats > 0, "the event loop is the program's: the application has threads of its own"
    assert state == "RUNNING"
    assert app.state == "NOT_RUNNING"
