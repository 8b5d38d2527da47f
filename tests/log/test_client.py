"""Client settings are said once and rendered for every client."""

import pytest

from penstock.errors import ConfigError
from penstock.kafka_wire.settings import parse_settings
from penstock.log.client import Connection, portable
from penstock.log.kafka import KafkaLog

SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "me",
    "sasl.password": 'p"w\\d',
}


def test_settings_go_to_all_clients_and_those_with_a_name_before_them_to_that_one():
    connection = Connection("a:1", {"client.id": "x", "producer.acks": "all", "consumer.fetch.min.bytes": 5})
    for client in ("producer", "consumer", "admin"):
        settings = connection.settings(client)
        assert (settings["bootstrap.servers"], settings["client.id"]) == ("a:1", "x")
        assert ("acks" in settings) == (client == "producer")
        assert ("fetch.min.bytes" in settings) == (client == "consumer")


def test_the_user_wins_over_our_preferences_but_not_over_what_correctness_needs():
    connection = Connection("a:1", {"linger.ms": 3, "isolation.level": "read_uncommitted"})
    assert connection.settings("producer")["linger.ms"] == 3
    assert connection.settings("consumer", isolation_level="read_committed")["isolation.level"] == "read_committed"


def test_passwords_are_not_shown():
    assert "p" + '"' not in repr(Connection("a:1", SASL))
    assert "sasl" not in repr(Connection("a:1", SASL))


def test_certificates_travel_to_other_machines_as_text(tmp_path):
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"-- {name} --")
    kafka = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(tmp_path / "ca"),
        "consumer.ssl.certificate.location": tmp_path / "cert",
        "ssl.key.location": tmp_path / "key",
        "ssl.key.password": "hush",
    }
    assert portable(kafka) == {
        "security.protocol": "SSL",
        "ssl.ca.pem": "-- ca --",
        "consumer.ssl.certificate.pem": "-- cert --",
        "ssl.key.pem": "-- key --",
        "ssl.key.password": "hush",
    }
    assert portable({"ssl.ca.location": str(tmp_path)}) == {"ssl.ca.location": str(tmp_path)}


@pytest.mark.parametrize("make", [lambda log: log.admin, lambda log: log.producer(None), lambda log: log.producer("a")])
def test_settings_that_the_client_refuses_are_an_error_of_the_configuration(make):
    with pytest.raises(ConfigError, match=r"kafka=.*No such configuration property: .no\.such"):
        make(KafkaLog("127.0.0.1:1", {"no.such": 1}))


def test_an_answer_is_waited_for_half_a_minute_and_no_longer_than_a_transaction_may_be_open():
    bound = "socket.timeout.ms"
    assert {Connection("a:1").settings(client)[bound] for client in ("producer", "consumer", "admin")} == {30_000}
    assert Connection("a:1", {"producer.transaction.timeout.ms": 5000}).settings("producer")[bound] == 5000
    assert Connection("a:1", {bound: 70_000}).settings("consumer")[bound] == 70_000
    settings = parse_settings(Connection("a:1").settings("producer"))
    assert (settings.socket_seconds, settings.idle_seconds) == (30, 10)


def test_no_producer_makes_topics():
    assert Connection("a:1").settings("producer")["allow.auto.create.topics"] is False
