"""Whether the broker answers, asked at most every few seconds, and never waited for by the engine."""

from __future__ import annotations

import threading
from typing import Any

import anyio

from penstock.admin.served_app import ServedApp
from penstock.clock import stopwatch_us
from penstock.log.kafka import KafkaLog
from penstock.masking import scrubbed
from penstock.topology.node import SourceNode
from penstock.topology.topology import Topology

#: an answer is good for so long
FRESH_US = 2_000_000
#: a probe waits so long for the answer; then the broker is said not to answer
WAIT_SECONDS = 2.0
#: the client waits so long, before the next question is asked
LONGEST_SECONDS = 10.0


class BrokerProbe:
    """Asks the broker which topics there are, in a thread and by a client of its own, one question at a time."""

    def __init__(self, running: ServedApp) -> None:
        self._running = running
        self._lock = threading.Lock()
        self._asking: threading.Event | None = None
        self._found: dict[str, Any] = {"answers": True, "error": None}
        self._at: int | None = None
        self._log: KafkaLog | None = None

    def close(self) -> None:
        """Close the client. A question that is under way fails."""
        with self._lock:
            log, self._log = self._log, None
        if log is not None:
            log.close()

    async def look(self) -> dict[str, Any]:
        """Return whether it answers, and which source topics are missing."""
        asking = self._ask()
        if asking is not None:
            with anyio.move_on_after(WAIT_SECONDS + 0.5):
                await self._running.in_thread(asking.wait, WAIT_SECONDS)
            if not asking.is_set():
                return {"answers": False, "error": f"no answer within {WAIT_SECONDS:.0f} s"}
        return self._found

    def _ask(self) -> threading.Event | None:
        """Return what is set when the answer is there; None if the last one is good enough."""
        with self._lock:
            if self._asking is None:
                if self._at is not None and stopwatch_us() - self._at < FRESH_US:
                    return None
                self._asking = threading.Event()
                threading.Thread(target=self._run, args=(self._asking,), name="penstock-probe", daemon=True).start()
            return self._asking

    def _run(self, asking: threading.Event) -> None:
        try:
            topics = self._client().admin.topics()
            missing = sorted(source_topics(self._running.app.topology) - topics.keys())
            found: dict[str, Any] = {"answers": True, "error": None, "missing_topics": missing}
        except Exception as error:
            found = {"answers": False, "error": scrubbed(str(error))}
        with self._lock:
            self._found, self._at, self._asking = found, stopwatch_us(), None
        asking.set()

    def _client(self) -> KafkaLog:
        config = self._running.app.config
        with self._lock:
            if self._log is None:
                self._log = KafkaLog(config["bootstrap_servers"], config["kafka"], timeout=LONGEST_SECONDS)
            return self._log


def source_topics(topology: Topology) -> set[str]:
    """Return the topics that a topology names as its input; those of patterns are not known."""
    nodes = [node for node in topology.nodes.values() if isinstance(node, SourceNode) and node.schedule is None]
    return {topic for node in nodes for topic in node.topics} - topology.internal_topics.keys()
