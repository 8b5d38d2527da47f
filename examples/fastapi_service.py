"""A FastAPI service that serves a store: the application and the service are one process.

The application starts and stops with the service. ``GET /words/{word}`` answers from the store of the counts, as of
the last barrier; ``?offset=`` is the offset of a line that the client has sent (to partition 0), whose words the
answer then has. Penstock's own endpoints, with health, metrics and the page, are mounted below ``/streams``.

With a broker (``penstock dev``), the topic ``lines`` (``penstock topics create lines``), and FastAPI and uvicorn
installed::

    python examples/fastapi_service.py
    curl localhost:8000/words/hello
    curl 'localhost:8000/words?prefix=he'
    curl localhost:8000/streams/health/ready
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

from fastapi import FastAPI, HTTPException
from fastapi.responses import JSONResponse

from penstock import App, KeyQuery, NotAvailable, NotUpToBound, PrefixQuery, Serdes, StreamsBuilder


def topology(lines: str = "lines") -> StreamsBuilder:
    """Count words."""
    builder = StreamsBuilder()
    (
        builder.stream(lines, value=Serdes.string)
        .flat_map_values(str.split)
        .group_by(lambda _, word: word)
        .count(store="counts")
    )
    return builder


def serve(streams: App, lines: str = "lines") -> FastAPI:
    """Return a service that runs an application, and answers from its store."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with streams:  # starts it, waits until it runs, and stops it at a barrier
            yield

    service = FastAPI(title="Word counts", lifespan=lifespan)
    service.mount("/streams", streams.admin_asgi())

    @service.exception_handler(NotAvailable)
    def not_now(_: Any, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 503, {"Retry-After": "1"})

    @service.get("/words/{word}")
    def count(
        word: str, offset: int | None = None, wait_ms: int = 5_000
    ) -> dict[str, Any]:  # no `async`: a thread waits for the barrier
        at_least = None if offset is None else {(lines, 0): offset}
        try:
            found = streams.query("counts", KeyQuery(word), at_least=at_least, wait_ms=wait_ms)
        except NotUpToBound as error:
            raise HTTPException(409, str(error)) from error
        if not found.found:
            raise HTTPException(404, f"nobody has written {word!r} yet")
        return {"word": word, "count": found.value, "epoch": found.epoch}

    @service.get("/words")
    def counts(prefix: str = "", limit: int = 100) -> dict[str, int]:
        with streams.query("counts", PrefixQuery(prefix)) as rows:
            return dict(islice(rows, limit))

    return service


app = App(topology(), application_id="word-service")
service = serve(app)

if __name__ == "__main__":
    import uvicorn

    uvicorn.run(service, port=8000)
