"""A lookup of 10 ms for every record. Kafka Streams waits in its threads: two of them make 200 lookups a second, whatever the machine.

Penstock's ``map_values_async`` makes many at a time in each lane, blocking ones in threads, coroutines in an event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from bench.data import purchases
from bench.workloads.base import Compare, Emission, Size, Workload
from penstock import Serdes, StreamsBuilder
from penstock.log.base import Row


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


def build(
    sources: Sequence[str], target: str, wait: str = "10", concurrency: str = "64", form: str = "blocking"
) -> StreamsBuilder:
    """Say the job; ``wait`` in milliseconds.

    >>> from penstock.testing import TopologyTestDriver
    >>> text = {"key": Serdes.string, "value": Serdes.string}
    >>> with TopologyTestDriver(build(["in"], "out", wait="0", concurrency="4")) as driver:
    ...     driver.input_topic("in", **text).pipe_all([("k7", '{"order":0}'), ("k", '{"order":1}')], start=0)
    ...     driver.output_topic("out").read_values()
    ['{"order":0,"letters":2}', '{"order":1,"letters":1}']
    """
    builder = StreamsBuilder()
    text = Serdes.string
    stream: Any = builder.stream(sources[0], key=text, value=text)
    look_up = partial(FORMS[form], int(wait) / 1000)
    stream.map_values_async(look_up, with_key=True, concurrency=int(concurrency), value=text).to(target)
    return builder


def expected(rows: Iterable[Row]) -> Iterator[Emission]:
    """Yield what must come out."""
    for _, _, key, value, _, _ in rows:
        yield key, enriched((key or b"").decode(), (value or b"").decode()).encode()


def workload(name: str, title: str, form: str) -> Workload:
    """Return the workload with one form of a lookup."""
    options = {"wait": "10", "concurrency": "64", "form": form}
    size, few = Size(100_000, 1_000), {"java": 3_000, "java-alo": 3_000, "quixstreams": 1_500}
    return Workload(
        name,
        title,
        "lookup",
        ["purchases"],
        size,
        purchases,
        expected,
        Compare.ORDERED,
        options=options,
        settings=["max_epoch_records=20000"],
        quick=2_000,
        few=few,
    )


WORKLOADS = (
    workload("blocking-lookup", "a lookup that blocks for 10 ms, of every record", "blocking"),
    workload("coroutine-lookup", "the same, awaited in a coroutine (Java blocks)", "coroutine"),
)
