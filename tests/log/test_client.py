"""Client settings are said once and rendered for every client, Spark's Java consumer too."""

import pytest

from penstock.errors import ConfigError
from penstock.log.client import Connection
from penstock.log.kafka import KafkaLog

SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "me",
    "sasl.password": 'p"w\\d',
}


def spark(**kafka):
    return Connection("a:1,b:2", {name.replace("_", "."): value for name, value in kafka.items()}).spark_options()


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


def test_spark_gets_the_cluster_and_what_its_consumer_knows_in_its_words():
    options = spark(
        socket_receive_buffer_bytes=65536,
        fetch_message_max_bytes=5,
        check_crcs=True,
        linger_ms=3,
        spark_max_poll_records=9,
    )
    assert options == {
        "kafka.bootstrap.servers": "a:1,b:2",
        "kafka.receive.buffer.bytes": "65536",
        "kafka.max.partition.fetch.bytes": "5",
        "kafka.check.crcs": "true",
        "kafka.max.poll.records": "9",
    }


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("scram-sha-512", "scram.ScramLoginModule"),
    ],
)
def test_a_password_becomes_a_login_of_java(mechanism, module):
    options = Connection("a:1", SASL | {"sasl.mechanisms": mechanism}).spark_options()
    assert options["kafka.sasl.mechanism"] == mechanism
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module} required username="me" password="p\\"w\\\\d";'
    )


def test_kerberos_becomes_a_login_of_java():
    options = spark(
        security_protocol="SASL_PLAINTEXT",
        sasl_kerberos_keytab="/etc/my.keytab",
        sasl_kerberos_principal="me@REALM",
        sasl_kerberos_service_name="kafka",
    )
    assert options["kafka.sasl.kerberos.service.name"] == "kafka"
    assert options["kafka.sasl.jaas.config"] == (
        "com.sun.security.auth.module.Krb5LoginModule required "
        'useKeyTab="true" storeKey="true" keyTab="/etc/my.keytab" principal="me@REALM";'
    )


def test_certificates_travel_as_text(tmp_path):
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"-- {name} --")
    options = spark(
        security_protocol="SSL",
        ssl_ca_location=str(tmp_path / "ca"),
        ssl_certificate_location=str(tmp_path / "cert"),
        ssl_key_location=tmp_path / "key",
        ssl_key_password="hush",
        ssl_endpoint_identification_algorithm="none",
    )
    assert options == {
        "kafka.bootstrap.servers": "a:1,b:2",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.key.password": "hush",
        "kafka.ssl.endpoint.identification.algorithm": "",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "-- ca --",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "-- cert --",
        "kafka.ssl.keystore.key": "-- key --",
    }


def test_settings_of_java_may_be_given_as_they_are():
    options = spark(security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", spark_sasl_jaas_config="M required;")
    assert options["kafka.sasl.jaas.config"] == "M required;"


@pytest.mark.parametrize(
    ("kafka", "message"),
    [
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, r"OAUTHBEARER.*spark\.sasl\.jaas\.config"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "me"}, r"no 'sasl\.password'"),
        ({"security_protocol": "SASL_SSL"}, r"Kerberos but has no 'sasl\.kerberos\.keytab'"),
        ({"security_protocol": "SSL", "ssl_ca_location": "nowhere.pem"}, r"nowhere\.pem.*cannot be read"),
        ({"enable_ssl_certificate_verification": False}, r"cannot skip the check.*ssl\.ca\.location"),
    ],
)
def test_what_spark_cannot_be_told_is_refused_with_a_remedy(kafka, message):
    with pytest.raises(ConfigError, match=message):
        spark(**kafka)


@pytest.mark.parametrize("make", [lambda log: log.admin, lambda log: log.producer(None), lambda log: log.producer("a")])
def test_settings_that_the_client_refuses_are_an_error_of_the_configuration(make):
    with pytest.raises(ConfigError, match=r"kafka=.*No such configuration property: .no\.such"):
        make(KafkaLog("127.0.0.1:1", {"no.such": 1}))
