"""Accounts in shards, without Spark and Kafka: epochs move amounts between them, and a lane applies these.

Half of the rows are in a store on disk, half in one in memory. The sum over all accounts is the same at every
barrier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock import Serdes, Stores, StreamsBuilder
from penstock import config as configuration
from penstock.lane.memory_stores import WorkerShards
from penstock.plan.passes import make_plan
from penstock.protocol.request import EpochRequest, ShardRequest, Stage
from penstock.query.barriers import Barrier, Barriers
from penstock.query.routing import Routing
from penstock.query.service import Queries
from penstock.query.shards import LocalShards
from penstock.state import pending
from penstock.state.base import Sealed

SHARDS = 4
STORES = ("disk", "memory")
FORMAT = {"key": Serdes.string, "value": Serdes.int64}


class Keep:
    def init(self, context: Any) -> None:
        pass

    def process(self, record: Any) -> None:
        pass

    def close(self) -> None:
        pass


def make_stage(folder: Path) -> Stage:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("disk", **FORMAT))
    builder.add_state_store(Stores.key_value("memory", persistent=False, **FORMAT))
    builder.stream("in", **FORMAT).process(Keep, stores=list(STORES))
    config = configuration.load({"application_id": "accounts"}, environ={})
    return Stage(make_plan(builder.build()), "accounts", config, SHARDS, 1, str(folder), "nowhere:1", run="run")


class Accounts:
    """The driver's side: epochs, and what every store has at each barrier."""

    def __init__(self, folder: Path, *, timeout_ms: int = 300_000, own_lane: bool = True) -> None:
        """``own_lane``: shards are applied in this process, by ``apply``."""
        self.own_lane = own_lane
        self.stage = make_stage(folder)
        self.home = WorkerShards(self.stage)
        self.shards = [ShardRequest()] * SHARDS
        self.epoch = 0
        self.rows: dict[tuple[str, int], dict[str, int]] = {(s, n): {} for s in STORES for n in range(SHARDS)}
        self.models: dict[int, dict[str, dict[str, int]]] = {}
        self.barriers = Barriers()
        self.queries = Queries(
            Routing(self.stage.plan, SHARDS, 1),
            LocalShards(self.stage),
            SHARDS,
            barriers=self.barriers,
            global_stores=False,
            moves_ahead=True,
            timeout_ms=timeout_ms,
        )
        self.publish()

    def move(self, moves: list[tuple[str, int, str, int]]) -> None:
        """Run an epoch: (store, shard, account, amount) each; its writes are pending, and committed.

        A lane brings its shards to the last barrier before it runs the next epoch.
        """
        for shard in {shard for _, shard, _, _ in moves} if self.own_lane else ():
            self.apply(shard)
        self.epoch += 1
        token = f"{self.epoch}.a"
        touched: dict[int, dict[str, dict[str, int]]] = {}
        for store, shard, account, amount in moves:
            rows = self.rows[store, shard]
            rows[account] = rows.get(account, 0) + amount
            touched.setdefault(shard, {}).setdefault(store, {})[account] = rows[account]
        for shard, stores in touched.items():
            sealed = {
                store: Sealed([(key.encode(), Serdes.int64.serialize(value)) for key, value in rows.items()])
                for store, rows in stores.items()
            }
            name = pending.file_name(token, 0, "x")
            self.home.keep_pending(shard, name, pending.pack(sealed))
            self.shards[shard] = ShardRequest(token, self.shards[shard].version, (name,))

    def request(self) -> EpochRequest:
        return EpochRequest(
            epoch=self.epoch + 1, token="", incarnation="life", shards=tuple(self.shards), changelogs={},
            positions=[], topics=(), source_of={}, reached=[], partitions={}, snapshots={}, global_ends=[],
        )  # fmt: skip

    def publish(self) -> None:
        """Tell of the barrier."""
        self.models[self.epoch] = {
            store: {key: value for shard in range(SHARDS) for key, value in self.rows[store, shard].items()}
            for store in STORES
        }
        self.queries.publish(Barrier(self.epoch, {("in", 0): self.epoch}), self.request())

    def apply(self, shard: int) -> None:
        """Do what the lane of a shard does when it is told of the barrier."""
        request = self.request()
        self.home.open(shard, request).release()
        self.home.drop_pending(shard, request.shards[shard].pending)

    def check(self, snapshot: Any) -> None:
        """Every store of a snapshot is what it was at its barrier."""
        for store in STORES:
            assert dict(snapshot.store(store).all()) == self.models[snapshot.epoch][store], snapshot.epoch

    def close(self) -> None:
        self.queries.close()
        self.home.close()
