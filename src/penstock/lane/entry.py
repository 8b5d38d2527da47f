"""Where a task of Spark enters: functions of the number of the task and of what comes to it, chunks, to chunks.

They travel to the workers by name. ``stage`` holds the bytes of the stage as its ``value``: it is broadcast, and read once by a worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from threading import Event
from typing import Any

from penstock.clock import stopwatch_us
from penstock.lane.inline_epoch import run_inline_epoch
from penstock.lane.kafka_input import read_rows, taken_in
from penstock.lane.record_times import add_times
from penstock.lane.run import restore_lane, run_step
from penstock.lane.worker import release_resources, worker_for
from penstock.protocol import channel, shuffle
from penstock.protocol import request as requests
from penstock.protocol.channel import Part
from penstock.protocol.chunk import packed
from penstock.protocol.request import EpochRequest, Range
from penstock.serde.registry.catalog import learn

#: how long tasks that close resources wait for each other: some of them may have no place to run
RENDEZVOUS_US = 2_000_000
#: the lane of a chunk, as Spark wants to be told it
_address = Struct("!q").pack


def decode_request(data: bytes) -> EpochRequest:
    """Return a request; what the driver has asked the schema registry for is known from here on."""
    request = requests.decode_request(data)
    learn(request.schemas)
    return request


def restore(stage: Any, identity: str, request: bytes, lane: int, rows: Iterable[Any]) -> list[bytes]:
    """Bring the shards of a lane nearer to the last barrier."""
    _take_all(rows)
    return list(packed(restore_lane(worker_for(identity, lambda: stage.value), decode_request(request), lane)))


def inline_epoch(
    stage: Any, identity: str, request: bytes, parts: Sequence[Part], _task: int, rows: Iterable[Any]
) -> list[bytes]:
    """Run an inline epoch."""
    _take_all(rows)
    return run_inline_epoch(worker_for(identity, lambda: stage.value), decode_request(request), parts)


def serve(stage: Any, identity: str, address: str, _task: int, rows: Iterable[Any]) -> list[bytes]:
    """Run inline epochs as long as they come: the body of a resident task."""
    _take_all(rows)
    worker = worker_for(identity, lambda: stage.value)
    channel.serve(
        address,
        lambda request, parts: run_inline_epoch(worker, decode_request(request), parts),
        lambda request: worker.follow(decode_request(request)),
    )
    return []


def read(
    stage: Any, identity: str, request: bytes, parts: Sequence[Sequence[Range]], task: int, rows: Iterable[Any]
) -> Iterator[bytes]:
    """Read ranges; yield the lane and the chunk of rows, in turn."""
    _take_all(rows)
    worker, given = worker_for(identity, lambda: stage.value), decode_request(request)
    moves: list[Any] = []
    found, wrap, lanes = taken_in(worker, given, task, parts[task], moves), worker.wrapping(given), worker.stage.lanes
    yield from _addressed(shuffle.partitioned(found, lanes, wrap=wrap))
    yield from _addressed(shuffle.moves_to_all(moves, lanes, wrap))


def run(
    stage: Any,
    identity: str,
    request: bytes,
    level: int,
    parts: Sequence[Sequence[Range]] | None,
    task: int,
    rows: Iterable[Any],
) -> Iterator[bytes]:
    """Run a step. ``parts``: what each task reads; None: chunks come. Yields chunks, before the last step each after its lane."""
    worker, given = worker_for(identity, lambda: stage.value), decode_request(request)
    final: list[bytes] = []
    moves: list[Any] = []
    if parts is None:
        coming = shuffle.opened(rows, final, moves)
    else:
        _take_all(rows)
        coming = add_times(worker, given, read_rows(worker, given, parts[task]), moves)
    leaving = run_step(worker, given, level, task, coming, moves)
    if level == worker.stage.plan.steps[-1].level:
        yield from packed(leaving, worker.wrapping(given))
        yield from final
    else:
        wrap, lanes = worker.wrapping(given), worker.stage.lanes
        yield from _addressed(shuffle.partitioned(leaving, lanes, final, wrap))
        if parts is not None or task == 0:  # every lane has heard of all moves, those that read each of its own
            yield from _addressed(shuffle.moves_to_all(moves, lanes, wrap))


def release(identity: str, rendezvous: str | None, tasks: int, task: int, rows: Iterable[Any]) -> list[bytes]:
    """Close the resources of this worker. ``rendezvous``: a folder where the tasks wait for each other, so that each has its own worker."""
    _take_all(rows)
    release_resources(identity)
    if rendezvous is not None:
        folder, until = Path(rendezvous), stopwatch_us() + RENDEZVOUS_US
        (folder / f"released.{task}").touch()
        while sum(1 for _ in folder.glob("released.*")) < tasks and stopwatch_us() < until:
            Event().wait(0.01)
    return []


def _addressed(chunks: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    for lane, chunk in chunks:
        yield _address(lane)
        yield chunk


def _take_all(rows: Iterable[Any]) -> None:
    """A worker is used again only if it has read all that it was sent."""
    for _ in rows:
        pass
