"""The lookup job as a program of Penstock::

    python -m bench.peers.lookup bootstrap application-id in out exactly_once lanes state-dir lookup-ms concurrency blocking|coroutine
        [name=value ...]

What follows are settings of Penstock. It prints a line for each state, and ends at the end of its standard input or at SIGTERM.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.peers.count_sum import announce, end_with_input
from penstock import Serdes, StreamsBuilder
from penstock.app import App


def enriched(key: str, value: str) -> str:
    """Put the answer into a purchase, as the Java program does.

    >>> enriched("k7", '{"order":0}')
    '{"order":0,"letters":2}'
    """
    return f'{value[:-1]},"letters":{len(key)}}}'


def block(seconds: float, key: str, value: str) -> str:
    """A lookup that blocks."""
    time.sleep(seconds)
    return enriched(key, value)


async def pause(seconds: float, key: str, value: str) -> str:
    """A lookup that is awaited."""
    await asyncio.sleep(seconds)
    return enriched(key, value)


#: the two forms of a lookup
FORMS: dict[str, Callable[..., Any]] = {"blocking": block, "coroutine": pause}


def build(source: str, target: str, seconds: float, concurrency: int, form: str) -> StreamsBuilder:
    """Say the job.

    >>> from penstock.testing import TopologyTestDriver
    >>> text = {"key": Serdes.string, "value": Serdes.string}
    >>> with TopologyTestDriver(build("in", "out", 0, 4, "blocking")) as driver:
    ...     driver.input_topic("in", **text).pipe_all([("k7", '{"order":0}'), ("k", '{"order":1}')], start=0)
    ...     driver.output_topic("out").read_values()
    ['{"order":0,"letters":2}', '{"order":1,"letters":1}']
    """
    builder = StreamsBuilder()
    text = Serdes.string
    stream: Any = builder.stream(source, key=text, value=text)
    answers = stream.map_values_async(partial(FORMS[form], seconds), with_key=True, concurrency=concurrency, value=text)
    answers.to(target)
    return builder


def main(arguments: list[str]) -> None:
    bootstrap, application_id, source, target, guarantee, lanes, state_dir, wait, concurrency, form, *given = arguments
    settings: dict[str, Any] = dict(setting.split("=", 1) for setting in given)
    app = App(
        build(source, target, int(wait) / 1000, int(concurrency), form),
        application_id=application_id,
        bootstrap_servers=bootstrap,
        processing_guarantee=guarantee,
        lanes=int(lanes),
        master=f"local[{lanes}]",
        state_dir=state_dir,
        **settings,
    )
    app.on_state_change(announce)
    threading.Thread(target=end_with_input, daemon=True).start()
    app.run()


if __name__ == "__main__":
    main(sys.argv[1:])
