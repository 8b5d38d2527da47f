"""examples/fastapi_service.py: the application lives as long as the service, which answers from its store."""

import threading
from contextlib import contextmanager

import httpx
import uvicorn
from examples.fastapi_service import serve, topology

from penstock.app import State


@contextmanager
def served(service):
    """Serve on a free port, from the start of the application to its end; give a client."""
    server = uvicorn.Server(uvicorn.Config(service, port=0, log_level="warning", lifespan="on"))
    started = threading.Event()
    startup = server.startup

    async def tell(sockets=None):
        await startup(sockets)
        started.set()

    server.startup = tell
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert started.wait(120)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(60)


def test_on_spark_a_client_reads_what_it_has_written_and_the_service_stops_the_application(start, cluster, topics):
    lines = f"{topics('lines')}lines"
    streams = start.app(topology(lines))
    cluster.send(lines, (None, "hello stream", 1_700_000_000_000))
    with served(serve(streams, lines)) as client:
        assert streams.state is State.RUNNING
        found = client.get("/words/hello", params={"offset": 0}).json()
        assert (found["word"], found["count"]) == ("hello", 1)
        cluster.send(lines, (None, "hello help", 1_700_000_000_001))
        second = client.get("/words/hello", params={"offset": 1}).json()
        assert (second["count"], second["epoch"] > found["epoch"]) == (2, True)
        assert client.get("/words", params={"prefix": "hel"}).json() == {"hello": 2, "help": 1}
        assert client.get("/words/nothing").status_code == 404
        too_far = client.get("/words/hello", params={"offset": 99_999, "wait_ms": 1})
        assert too_far.status_code == 409
        assert client.get("/streams/health/ready").status_code == 200
        assert client.get("/streams/v1/info").json()["application_id"] == streams.application_id
    assert streams.state is State.NOT_RUNNING
