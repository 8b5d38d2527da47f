"""From the client's error codes to our errors: what happened, and what the reader must do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from penstock.errors import BrokerError, ConfigError, FencedError, TopicError
from penstock.log.client import logger
from penstock.masking import scrubbed

T = TypeVar("T")

#: another producer has the id, or the coordinator gave up on this one
FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}

MISSING_TOPIC = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}

#: the cluster is busy with itself or not to be reached: the same call may work a little later
TRANSIENT = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._WAIT_COORD,
    KafkaError._MSG_TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.NOT_CONTROLLER,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
}

_UNREACHABLE = "is Kafka running, and is bootstrap_servers right? (`penstock dev` starts a broker on this machine)"
_FORBIDDEN = "let an administrator of the cluster grant the right to this user"
_REFUSED = "check security.protocol, sasl.* and ssl.* among the client settings (kafka={...})"
REMEDIES = {
    KafkaError._TRANSPORT: _UNREACHABLE,
    KafkaError._ALL_BROKERS_DOWN: _UNREACHABLE,
    KafkaError._TIMED_OUT: _UNREACHABLE,
    KafkaError._MSG_TIMED_OUT: _UNREACHABLE,
    KafkaError._RESOLVE: _UNREACHABLE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.GROUP_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError._AUTHENTICATION: _REFUSED,
    KafkaError.SASL_AUTHENTICATION_FAILED: _REFUSED,
    KafkaError._SSL: _REFUSED,
    KafkaError.MSG_SIZE_TOO_LARGE: "make it smaller, or raise message.max.bytes here and max.message.bytes of the topic",
    KafkaError.NON_EMPTY_GROUP: "stop the members of the group first",
    KafkaError.UNKNOWN_MEMBER_ID: "another consumer has joined the group of this application: stop it, or rename one",
    KafkaError.ILLEGAL_GENERATION: "another consumer has joined the group of this application: stop it, or rename one",
    KafkaError.INVALID_REPLICATION_FACTOR: "the cluster has fewer brokers: give a smaller replication factor",
    KafkaError._AUTO_OFFSET_RESET: "these records are gone (retention) or were never there: begin elsewhere",
    KafkaError.INVALID_TIMESTAMP: "the broker refuses timestamps so far from its clock: see the topic's "
    "message.timestamp.after.max.ms and message.timestamp.before.max.ms",
}
for _code in MISSING_TOPIC:
    REMEDIES[_code] = "create it (`penstock topics create`), with enough partitions"


def made(client: Callable[..., T], settings: Mapping[str, Any]) -> T:
    """Make a client of the library; settings that it refuses are the reader's to correct, a lack of memory is not theirs."""
    try:
        return client(settings, logger=logger)
    except KafkaException as exception:
        said = scrubbed(kafka_error(exception).str())
        if kafka_error(exception).code() == KafkaError._CRIT_SYS_RESOURCE or "Cannot allocate memory" in said:
            raise MemoryError(said) from None
        raise ConfigError(f"the client settings (kafka={{...}}) are refused: {said}") from None  # it may hold a secret


def kafka_error(exception: KafkaException) -> KafkaError:
    """Return the client's error inside its exception."""
    found = exception.args[0]
    return found if isinstance(found, KafkaError) else KafkaError(KafkaError._FAIL, str(found))


def broker_error(error: KafkaError, doing: str) -> BrokerError:
    """Explain what could not be done, why, and what to do about it.

    >>> str(broker_error(KafkaError(KafkaError.NON_EMPTY_GROUP, "group is not empty"), "delete group 'a'"))
    "could not delete group 'a': group is not empty: stop the members of the group first"
    """
    code = error.code()
    if code in FENCED:
        return FencedError(
            f"could not {doing}: another instance with the same application_id has taken over, or the transaction was open for "
            "longer than transaction.timeout.ms. Only one instance runs at a time: this one stops and has committed nothing",
            code=error.name(),
            fatal=True,
        )
    kind = TopicError if code in MISSING_TOPIC else BrokerError
    remedy = REMEDIES.get(code)
    return kind(
        f"could not {doing}: {scrubbed(error.str())}" + (f": {remedy}" if remedy else ""),
        code=error.name(),
        retriable=error.retriable() or code in TRANSIENT,
        abortable=error.txn_requires_abort(),
        fatal=error.fatal(),
    )


def protocol_error(
    code: int, doing: str, said: str | None = None, *, abortable: bool = False, fatal: bool = False
) -> BrokerError:
    """Say the same of an error code of the protocol.

    >>> str(protocol_error(47, "commit"))[:39]
    'could not commit: another instance with'
    """
    error = KafkaError(code)
    words = error.str() if said is None else said
    return broker_error(KafkaError(code, words, fatal, False, abortable), doing)
