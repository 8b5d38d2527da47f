"""One run of an application on the driver: everything wired, from the log to the loop."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from penstock.clock import Clock
from penstock.dev.cache import cache_root
from penstock.engine import recovery, topics
from penstock.engine.attempt import Attempts
from penstock.engine.changelog_ends import ChangelogEnds
from penstock.engine.changelog_expiry import ChangelogExpiry
from penstock.engine.committed_state import CommittedState
from penstock.engine.due_work import DueWork
from penstock.engine.epoch_sizer import EpochSizer
from penstock.engine.executor.spark import SparkExecutor
from penstock.engine.fingerprint import canonical_topology, fingerprint
from penstock.engine.limits import Limits
from penstock.engine.loop import Loop
from penstock.engine.offsets import Input
from penstock.engine.record import pack
from penstock.engine.recovery import OnRestore
from penstock.engine.registry_schemas import RegistrySchemas
from penstock.engine.sources import find_topics
from penstock.engine.store_descriptions import describe_stores
from penstock.engine.transaction_recovery import transaction_ms
from penstock.engine.work import EpochContext
from penstock.errors import ConfigError
from penstock.freed_memory import keep_freed_memory
from penstock.log.base import Producer
from penstock.log.client import portable, secrets
from penstock.log.kafka import KafkaLog
from penstock.operators.scheduled import FIRST_SHARD
from penstock.plan.passes import make_plan
from penstock.protocol.request import Stage, offsets
from penstock.protocol.state_folder import application_folder, remove_memory
from penstock.protocol.timing import Timing
from penstock.protocol.worker_log import levels_set
from penstock.query.barriers import Barrier, Barriers, position_of
from penstock.query.changes import ChangeFeeds
from penstock.query.followed_shards import FollowedShards
from penstock.query.routing import Routing
from penstock.query.service import Queries
from penstock.query.shards import LocalShards
from penstock.serde.registry.settings import SchemaRegistry
from penstock.topology.defaults import bound_topology
from penstock.topology.schemas import used_registries, written_schemas
from penstock.topology.topology import Topology

logger = logging.getLogger("penstock.engine")

#: what the client sends at most in one batch, unless it is told otherwise
CLIENT_BYTES = 1_000_000


class Engine:
    """An application between ``start`` and ``close``. Made by `App`; tests drive ``loop.step()`` by hand."""

    def __init__(
        self,
        topology: Topology,
        config: Mapping[str, Any],
        session: Any,
        *,
        clock: Clock,
        notify: OnRestore = lambda progress: None,
        allow_topology_change: bool = False,
        barriers: Barriers | None = None,
        changes: ChangeFeeds | None = None,
    ) -> None:
        """``barriers``, ``changes``: what is told of each barrier; those of the `App`, whoever listens there."""
        self.topology = bound_topology(topology, config["application_id"], config)
        self.config = config
        self.barriers = barriers or Barriers()
        self._changes = changes
        self._clock = clock
        self._notify = notify
        self._allow_change = allow_topology_change
        self._session = session
        self.application_id: str = config["application_id"]
        self.log = KafkaLog(config["bootstrap_servers"], config["kafka"])
        self.stage = make_stage(self.topology, config, session)
        self.executor: SparkExecutor | None = None
        #: answers queries, from the restore on
        self.queries: Queries | None = None
        self._producer: Producer | None = None
        self.loop: Loop | None = None

    def start(self) -> Loop:
        """Take over, restore, and return the loop, ready for its first epoch.

        What cannot run is refused first: until then nothing of the application is made, and an instance that runs is let be.
        """
        app, stage = self.application_id, self.stage
        keep_freed_memory()
        context = self._session.sparkContext
        check_cluster(self.topology, context.master)
        registries = used_registries(stage.plan.topology)
        check_secrets(context.master, self.config["kafka"], dict(context.getConf().getAll()), registries)
        partitions = topics.ensure_sinks(self.log, self.topology, self.config)
        find_topics(self.log.admin, self.topology, app)
        self._learn()
        topics.ensure_own(self.log, self.topology, app, stage.shards, self.config["replication_factor"])
        exactly_once = self.config["processing_guarantee"] == "exactly_once"
        if exactly_once:
            topics.warn_of_one_copy(self.log, [*partitions, *topics.own_topics(self.topology, app)])
        limits, batch_bytes = self._limits(partitions)
        self._producer = self.log.producer(app if exactly_once else None, batch_bytes=batch_bytes)
        self._producer.init()
        committed = self._learn()
        sizer = EpochSizer(
            self.config["max_epoch_records"],
            self.config["max_epoch_bytes"],
            stage.lanes,
            transaction_ms=transaction_ms(self.config["kafka"]),
        )
        source = Input(
            self.log,
            self.topology,
            group=app,
            clock=self._clock,
            max_records=sizer.records,
            align=self.config["align_replay"],
            idle_ms=self.config["max_task_idle_ms"],
        )
        source.start(committed.positions, committed.topic_ids)
        stores = dict.fromkeys(topics.logged_stores(self.topology), [0] * stage.shards)
        recorded = {store: list(committed.changelogs.get(store, zero)) for store, zero in stores.items()}
        committed = replace(committed, changelogs={**committed.changelogs, **recorded})
        self.executor = SparkExecutor(
            self._session, stage, self.log, self.config["inline_epoch_records"], self.config["executor"]
        )
        request = committed.request(
            f"{committed.epoch}.restore",
            source_of=source.source_of,
            partitions=partitions,
            global_ends=source.global_ends(),
            restore_limit=recovery.RESTORE_ROWS,
            levels=levels_set(),
        )
        recovery.restore(self.executor, stage, request, self._notify)
        context = EpochContext(
            self.log,
            self.executor,
            self._producer,
            self.config,
            self._clock,
            fingerprint(self.topology),
            pack(canonical_topology(self.topology)),
            partitions,
            limits,
            pack(describe_stores(stage.plan)),
        )
        timing = Timing(self.topology, idle_ms=self.config["idle_ms"])
        due = DueWork(source, timing, waking(stage), self._clock, self.config["commit_interval_ms"])
        ends = ChangelogEnds(self.log, app, stores)
        attempts = Attempts(
            context,
            source=source,
            sizer=sizer,
            committed=committed,
            ends=ends,
            due=due,
            changes=self._changes,
            schemas=RegistrySchemas(written_schemas(stage.plan.topology)),
        )
        attempts.global_ends = offsets(request.global_ends)
        self.loop = Loop(attempts, due)
        windowed = [name for name, spec in topics.logged_stores(self.topology).items() if spec.kind in topics.WINDOWED]
        self.loop.on_barrier.append(ChangelogExpiry(self.log, app, windowed, self._clock))
        self.queries = self._make_queries(local=self._session.sparkContext.master.startswith("local"))
        self.loop.on_barrier.append(self._publish)
        self._publish(committed)
        return self.loop

    def _make_queries(self, *, local: bool) -> Queries:
        stage = self.stage
        return Queries(
            Routing(stage.plan, stage.shards, stage.lanes),
            LocalShards(stage) if local else FollowedShards(stage),
            stage.shards,
            barriers=self.barriers,
            global_stores=bool(self.topology.global_stores),
            moves_ahead=local,
            timeout_ms=self.config["snapshot_timeout_ms"],
        )

    def _publish(self, committed: CommittedState) -> None:
        """Tell of a barrier, also of the one that this run goes on from."""
        assert self.queries is not None
        assert self.loop is not None
        attempts = self.loop.attempts
        position = position_of({**committed.positions, **attempts.global_ends})
        self.queries.publish(Barrier(committed.epoch, position), attempts.at_barrier())

    def _limits(self, sinks: Iterable[str]) -> tuple[Limits, int | None]:
        """Return what the topics take, and the smallest of their largest rows, if it is less than the client sends."""
        client = int(self.log.connection.settings("producer").get("message.max.bytes", CLIENT_BYTES))
        limits = Limits(self.log, self.topology, self.application_id, client)
        return limits, limits.learn([*sinks, *topics.own_topics(self.topology, self.application_id)])

    def _learn(self) -> CommittedState:
        stage = self.stage
        return recovery.learn(
            self.log, self.topology, self.application_id, stage.shards, stage.lanes, allow_change=self._allow_change
        )

    def view(self, name: str) -> Any:
        """Return a read-only view of a store: each call is at the last barrier."""
        assert self.queries is not None
        return self.queries.store(name)

    def close(self) -> None:
        """Release the producer and the log; what is not committed is left to the next start."""
        self.barriers.end()
        if self.loop is not None:
            self.loop.close()
        if self.queries is not None:
            self.queries.close()
        if self.executor is not None:
            self.executor.close()
            self.executor = None
        remove_memory(self.stage, application_folder(self.stage))
        self.log.close()


def make_stage(topology: Topology, config: Mapping[str, Any], session: Any) -> Stage:
    """Compile the application for the lanes. Nothing is left open in its topology."""
    lanes = config["lanes"] or max(1, session.sparkContext.defaultParallelism)
    lanes = min(lanes, config["shards"])
    folder = config["state_dir"] or str(cache_root() / "state")
    kafka = dict(config["kafka"]) if session.sparkContext.master.startswith("local") else portable(config["kafka"])
    return Stage(
        plan=make_plan(topology),
        application_id=config["application_id"],
        config={**config, "lanes": lanes, "kafka": kafka, "on_uncaught_error": "shutdown"},  # the driver's alone
        shards=config["shards"],
        lanes=lanes,
        state_dir=os.path.abspath(folder),
        bootstrap_servers=config["bootstrap_servers"],
        kafka=kafka,
        run=uuid.uuid4().hex,
    )


def waking(stage: Stage) -> dict[int, range]:
    """Return, by level, the shards that may have work of the wall clock, and so run in every epoch."""
    return {
        step.level: range(stage.shards) if step.scheduling else range(FIRST_SHARD, FIRST_SHARD + 1)
        for step in stage.plan.steps
        if step.scheduling or step.scheduled
    }


def check_cluster(topology: Topology, master: str) -> None:
    """Refuse what cannot be right on several executors: state that is in no log."""
    unlogged = [
        name
        for name, spec in topology.stores.items()
        if not spec.logged and spec.source_topic is None and name not in topology.global_stores
    ]
    if unlogged and not master.startswith("local"):
        raise ConfigError(
            f"stores {', '.join(unlogged)} have logged=False, but on {master} a lane may run on another machine at every epoch "
            "and finds its state only through the changelog: give them logged=True, or use master='local[*]'"
        )


#: what Spark encrypts by, any of them
ENCRYPTION = ("spark.network.crypto.enabled", "spark.authenticate.enableSaslEncryption", "spark.ssl.rpc.enabled")


def check_secrets(
    master: str, kafka: Mapping[str, Any], spark: Mapping[str, str], registries: Iterable[SchemaRegistry] = ()
) -> None:
    """Refuse to send secrets of the client settings, or of a schema registry, to the executors of a cluster in the clear."""
    found = [*secrets(kafka), *(f"registry {name}" for one in registries for name in one.secrets)]
    safe = _is_on(spark, "spark.authenticate") and any(_is_on(spark, name) for name in ENCRYPTION)
    if found and not safe and not master.startswith("local"):
        raise ConfigError(
            f"the client settings (kafka={{...}}, registry=...) hold secrets ({', '.join(found)}), which the executors of {master} "
            "need, and Spark would send them in the clear: set spark.authenticate=true and spark.network.crypto.enabled=true, with "
            "spark.authenticate.secret, for the cluster and here (spark_settings={...}), or use master='local[*]'"
        )


def _is_on(spark: Mapping[str, str], name: str) -> bool:
    return spark.get(name, "").lower() == "true"
