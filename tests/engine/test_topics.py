"""What an application says of its topics and its cluster before it runs."""

import logging

import pytest

from penstock import ConfigError
from penstock.engine.engine import check_secrets
from penstock.engine.topics import warn_of_one_copy
from penstock.log.base import TopicSpec
from penstock.log.memory import MemoryLog

MASTER = "spark://host:7077"
PASSWORD = {"security.protocol": "SASL_SSL", "sasl.password": "hush"}
AUTHENTICATED = {"spark.authenticate": "true"}


def test_topics_that_one_broker_can_lose_are_named_once_with_a_remedy(caplog):
    log = MemoryLog()
    log.admin.ensure_topics(
        [
            TopicSpec("single", 1),
            TopicSpec("unsure", 1, replication=3),
            TopicSpec("safe", 1, {"min.insync.replicas": "2"}, replication=3),
        ]
    )
    with caplog.at_level(logging.WARNING, logger="penstock.engine"):
        warn_of_one_copy(log, ["safe", "single", "unsure"])
        assert caplog.records == []  # of one broker nothing better can be had
        log._cluster.brokers = 3
        warn_of_one_copy(log, ["safe"])
        assert caplog.records == []
        warn_of_one_copy(log, ["safe", "single", "unsure"])
    (said,) = caplog.messages
    assert "single: one replica; unsure: min.insync.replicas is 1" in said
    assert "replication_factor=3" in said
    assert "safe" not in said


@pytest.mark.parametrize(
    "kafka",
    [PASSWORD, {"ssl.key.location": "key.pem"}, {"producer.ssl.key.pem": "-----"}, {"sasl.oauthbearer.config": "x"},
     {"sasl.oauthbearer.client.secret": "x"}],
)  # fmt: skip
@pytest.mark.parametrize("spark", [{}, AUTHENTICATED, {"spark.network.crypto.enabled": "true"}])
def test_secrets_do_not_go_to_a_cluster_in_the_clear(kafka, spark):
    with pytest.raises(
        ConfigError, match=r"in the clear: set spark.authenticate=true and spark.network.crypto"
    ) as caught:
        check_secrets(MASTER, kafka, spark)
    assert "hush" not in str(caught.value)


def test_secrets_go_where_nobody_can_read_them_and_others_anywhere():
    check_secrets(MASTER, PASSWORD, AUTHENTICATED | {"spark.network.crypto.enabled": "true"})
    check_secrets("local[2]", PASSWORD, {})
    check_secrets(MASTER, {"sasl.username": "me", "ssl.ca.location": "ca.pem"}, {})
