"""The few requests of a writer as data: number, version, how it is written and how its answer is read.

Versions are the oldest ones that Kafka 4 takes and that suffice: brokers from 2.5 on know all of them. Transactions are those of the first
protocol: a partition is added to the transaction before its first batch is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.kafka_wire.protocol.primitives import Decoder, Encoder, TopicPartition

T = TypeVar("T")

#: kinds of coordinators
GROUP, TRANSACTION = 0, 1


@dataclass(frozen=True, slots=True)
class Api(Generic[T]):
    """A kind of request. ``flexible``: with the headers of newer requests."""

    name: str
    key: int
    version: int
    read: Callable[[Decoder], T]
    flexible: bool = False

    def head(self, correlation: int, client: str) -> bytes:
        """Return what every request begins with."""
        head = Encoder().int16(self.key).int16(self.version).int32(correlation).string(client)
        return (head.varint(0) if self.flexible else head).done()

    def answer(self, data: bytes) -> tuple[int, T]:
        """Return which request an answer is for, and what it says."""
        found = Decoder(data)
        correlation = found.int32()
        if self.flexible:
            found.tags()
        return correlation, self.read(found)


class Identity(NamedTuple):
    """The producer id and epoch."""

    id: int
    epoch: int


NOBODY = Identity(-1, -1)


class BrokerAddress(NamedTuple):
    """Where a broker is."""

    node: int
    host: str
    port: int


class Coordinator(NamedTuple):
    """An answer: who coordinates."""

    code: int
    said: str | None
    broker: BrokerAddress


class TopicMetadata(NamedTuple):
    """An answer: a topic and the leader of each of its partitions, −1 where there is none."""

    code: int
    name: str
    leaders: dict[int, int]


class ClusterMetadata(NamedTuple):
    """An answer: brokers and topics."""

    brokers: list[BrokerAddress]
    topics: list[TopicMetadata]


#: partition → error code
Codes = dict[TopicPartition, int]


def _broker(found: Decoder) -> BrokerAddress:
    return BrokerAddress(found.int32(), found.string(), found.int32())


def _broker_with_rack(found: Decoder) -> BrokerAddress:
    broker = _broker(found)
    found.nullable()
    return broker


def _partition(found: Decoder) -> tuple[int, int]:
    found.int16()
    number, leader = found.int32(), found.int32()
    found.array(Decoder.int32)
    found.array(Decoder.int32)
    return number, leader


def _topic(found: Decoder) -> TopicMetadata:
    code, name, _ = found.int16(), found.string(), found.int8()
    return TopicMetadata(code, name, dict(found.array(_partition)))


def _metadata(found: Decoder) -> ClusterMetadata:
    found.int32()
    brokers = found.array(_broker_with_rack)
    found.nullable()
    found.int32()
    return ClusterMetadata(brokers, found.array(_topic))


def _coordinator(found: Decoder) -> Coordinator:
    found.int32()
    return Coordinator(found.int16(), found.nullable(), _broker(found))


def _identity(found: Decoder) -> tuple[int, Identity]:
    found.int32()
    return found.int16(), Identity(found.int64(), found.int16())


def _code(found: Decoder) -> int:
    found.int32()
    return found.int16()


def _codes_of(found: Decoder, rest: Callable[[Decoder], object] = lambda found: None) -> Codes:
    codes: Codes = {}
    for _ in range(found.int32()):
        topic = found.string()
        for _ in range(found.int32()):
            partition = (topic, found.int32())
            codes[partition] = found.int16()
            rest(found)
    return codes


def _codes(found: Decoder) -> Codes:
    found.int32()
    return _codes_of(found)


def _produced(found: Decoder) -> Codes:
    return _codes_of(found, lambda found: found.raw(24))  # offset, time of the broker, first offset


def _versions(found: Decoder) -> tuple[int, dict[int, tuple[int, int]]]:
    code = found.int16()
    return code, {key: (low, high) for key, low, high in found.array(lambda f: (f.int16(), f.int16(), f.int16()))}


def _mechanisms(found: Decoder) -> tuple[int, list[str]]:
    return found.int16(), found.array(Decoder.string)


def _authenticated(found: Decoder) -> tuple[int, str | None, bytes]:
    return found.int16(), found.nullable(), found.blob()


VERSIONS = Api("ApiVersions", 18, 0, _versions)
HANDSHAKE = Api("SaslHandshake", 17, 1, _mechanisms)
AUTHENTICATE = Api("SaslAuthenticate", 36, 0, _authenticated)
METADATA = Api("Metadata", 3, 4, _metadata)
FIND_COORDINATOR = Api("FindCoordinator", 10, 1, _coordinator)
INIT_PRODUCER = Api("InitProducerId", 22, 3, _identity, flexible=True)
ADD_PARTITIONS = Api("AddPartitionsToTxn", 24, 1, _codes)
ADD_OFFSETS = Api("AddOffsetsToTxn", 25, 1, _code)
TXN_OFFSETS = Api("TxnOffsetCommit", 28, 2, _codes)
END_TRANSACTION = Api("EndTxn", 26, 1, _code)
COMMIT_OFFSETS = Api("OffsetCommit", 8, 5, _codes)
PRODUCE = Api("Produce", 0, 7, _produced)  # the first that takes zstd

#: what a broker must know
NEEDED: tuple[Api[Any], ...] = (
    METADATA,
    FIND_COORDINATOR,
    INIT_PRODUCER,
    ADD_PARTITIONS,
    ADD_OFFSETS,
    TXN_OFFSETS,
    END_TRANSACTION,
    COMMIT_OFFSETS,
    PRODUCE,
)


def metadata(topics: Iterable[str]) -> bytes:
    """Ask for topics and their leaders. A topic that is missing is not made, whatever the cluster does for others."""
    return Encoder().array(topics, Encoder.string).int8(0).done()


def find_coordinator(kind: int, key: str) -> bytes:
    """Ask who coordinates a group or a transactional id."""
    return Encoder().string(key).int8(kind).done()


def init_producer(transactional_id: str | None, timeout_ms: int, identity: Identity = NOBODY) -> bytes:
    """Ask for an identity; with one's own: for its next epoch, which nobody gets who was taken over."""
    request = Encoder().compact(transactional_id).int32(timeout_ms).int64(identity.id).int16(identity.epoch)
    return request.varint(0).done()


def add_partitions(transactional_id: str, identity: Identity, partitions: Iterable[TopicPartition]) -> bytes:
    """Announce the partitions that take part in the transaction."""
    return _topics(
        _who(transactional_id, identity), dict.fromkeys(partitions), lambda out, item: out.int32(item[0])
    ).done()


def add_offsets(transactional_id: str, identity: Identity, group: str) -> bytes:
    """Announce that a group's offsets take part in the transaction."""
    return _who(transactional_id, identity).string(group).done()


def transaction_offsets(
    transactional_id: str, group: str, identity: Identity, offsets: Mapping[TopicPartition, int]
) -> bytes:
    """Commit offsets of a group, which has no members, with the transaction."""
    out = Encoder().string(transactional_id).string(group).int64(identity.id).int16(identity.epoch)
    return _topics(out, offsets, lambda out, item: out.int32(item[0]).int64(item[1]).int32(-1).nullable(None)).done()


def end_transaction(transactional_id: str, identity: Identity, *, committed: bool) -> bytes:
    """Commit or abort."""
    return _who(transactional_id, identity).int8(committed).done()


def commit_offsets(group: str, offsets: Mapping[TopicPartition, int]) -> bytes:
    """Commit offsets of a group, which has no members."""
    out = Encoder().string(group).int32(-1).string("")
    return _topics(out, offsets, lambda out, item: out.int32(item[0]).int64(item[1]).nullable(None)).done()


def _who(transactional_id: str, identity: Identity) -> Encoder:
    return Encoder().string(transactional_id).int64(identity.id).int16(identity.epoch)


def _topics(
    out: Encoder, partitions: Mapping[TopicPartition, T], add: Callable[[Encoder, tuple[int, T]], object]
) -> Encoder:
    """Add something for each partition, topic by topic."""
    by_topic = groupby(sorted(partitions.items(), key=itemgetter(0)), key=lambda item: item[0][0])
    grouped = [(topic, [(partition[1], item) for partition, item in items]) for topic, items in by_topic]
    return out.array(grouped, lambda out, each: out.string(each[0]).array(each[1], add))
