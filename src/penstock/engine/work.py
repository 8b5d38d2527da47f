"""One attempt of an epoch: what it is given, and what comes of it on the way to its commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.clock import Clock
from penstock.engine.committed_state import CommittedState
from penstock.engine.executor.base import Executor
from penstock.engine.limits import Limits
from penstock.log.base import Log, Offsets, Producer
from penstock.protocol.failed_records import FailureGroups
from penstock.protocol.report import TaskReport
from penstock.protocol.request import EpochRequest, Range


@dataclass(slots=True)
class EpochContext:
    """What all epochs of a run share."""

    log: Log
    executor: Executor
    producer: Producer
    config: Mapping[str, Any]
    clock: Clock
    fingerprint: str
    #: the canonical topology, packed for the epoch record
    topology: str
    #: topics that sinks write to → number of partitions
    partitions: Mapping[str, int]
    #: what topics take
    limits: Limits
    #: the stores, described and packed for the epoch record
    stores: str = ""

    @property
    def exactly_once(self) -> bool:
        """Whether epochs are committed as transactions."""
        return bool(self.config["processing_guarantee"] == "exactly_once")


@dataclass(slots=True)
class Work:
    """One attempt of an epoch."""

    context: EpochContext
    committed: CommittedState
    request: EpochRequest
    ranges: list[Range]
    #: input positions once it is committed
    positions: Offsets
    #: where the changelogs end now, aborted rows included
    ends: Mapping[str, list[int]]
    #: source topic → its id
    topic_ids: Mapping[str, str]
    #: where the time of the epoch before went: microseconds by step of the driver, and by phase of all lanes
    profile: Mapping[str, int] = field(default_factory=dict)
    rows: pa.Table | None = None
    reports: list[TaskReport] = field(default_factory=list)
    #: the committed state once this epoch is committed
    after: CommittedState | None = None
    written: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    #: rows that their topic refused, and that the policy left out
    failures: FailureGroups = field(default_factory=FailureGroups)
    #: sink topic → bytes of keys and values; store → rows of its changelog
    written_bytes: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)

    @property
    def application_id(self) -> str:
        """The application that it is an epoch of."""
        return self.committed.application_id
