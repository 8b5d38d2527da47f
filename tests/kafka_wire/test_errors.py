"""Error codes: the tables of the wire are those of the log, in numbers."""

from confluent_kafka import KafkaError

from penstock.errors import BrokerError, FencedError
from penstock.kafka_wire import errors
from penstock.log import failures
from penstock.log.wire_producer import _said


def test_codes_are_those_of_the_protocol_and_of_librdkafka():
    assert {code for code in failures.TRANSIENT if code > 0} == errors.RETRIABLE
    assert {code for code in failures.FENCED if code > 0} == errors.FENCED
    ours = (errors.LOST, errors.TIMED_OUT, errors.TLS_REFUSED, errors.WRONG_STATE, errors.NO_PARTITION)
    assert ours == (
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._SSL,
        KafkaError._STATE,
        KafkaError._UNKNOWN_PARTITION,
    )
    brokers = (errors.UNKNOWN_TOPIC, errors.TOO_LARGE, errors.INVALID_TXN_STATE, errors.UNKNOWN)
    assert brokers == (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.NETWORK_EXCEPTION,
    )
    assert {
        KafkaError.INVALID_TXN_STATE,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    } == errors.LOST_IDENTITY


def test_a_failure_keeps_its_flags_when_it_is_translated():
    fenced = _said(errors.ProducerError(47, "commit", abortable=True))
    assert (type(fenced), fenced.fatal, fenced.abortable) == (FencedError, True, False)
    lost = _said(errors.ProducerError(errors.LOST, "send rows", "gone", abortable=True))
    assert (type(lost), lost.retriable, lost.abortable, lost.fatal) == (BrokerError, True, True, False)
    assert str(lost).startswith("could not send rows: gone: ")
    interrupted = _said(errors.ProducerError(None, "send rows", "interrupted", abortable=True))
    assert (str(interrupted), interrupted.abortable) == ("could not send rows: interrupted", True)
