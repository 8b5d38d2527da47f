"""A lane in a process of its own: applies what is committed, when it likes.

It is told of barriers by lines, and says when all shards are there.
"""

from __future__ import annotations

import random
import sys
import threading
from base64 import b64decode
from pathlib import Path

from tests.query.accounts import make_stage

from penstock.lane.memory_stores import WorkerShards
from penstock.protocol.request import decode_request


def main(folder: str, seed: str) -> None:
    shards, draw = WorkerShards(make_stage(Path(folder))), random.Random(int(seed))
    pause = threading.Event()
    for line in sys.stdin:
        request = decode_request(b64decode(line))
        order = list(range(len(request.shards)))
        draw.shuffle(order)
        for shard in order:
            pause.wait(draw.choice((0, 0, 0.002)))
            shards.open(shard, request).release()
            shards.drop_pending(shard, request.shards[shard].pending)
        print(request.epoch - 1, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
