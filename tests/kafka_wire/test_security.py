"""TLS and SASL against a real broker: what librdkafka's settings say, this writer does."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from penstock.dev.broker import QUICK_START, Broker
from penstock.dev.server import free_ports
from penstock.errors import BrokerError
from penstock.kafka_wire.producer import TransactionalWire
from penstock.log import producers
from penstock.log.base import TopicSpec
from penstock.log.client import portable
from penstock.log.kafka import KafkaLog

HOST = "127.0.0.1"
LISTENERS = ("PLAINTEXT", "CONTROLLER", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="se,cr=et";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
USER = {"sasl.username": "alice", "sasl.password": "se,cr=et"}


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A CA, and what it has signed: a broker's certificate for its address, and a client's, whose key has a password."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    folder = tmp_path_factory.mktemp("tls")
    openssl(
        folder,
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-subj",
        "/CN=ca",
    )
    openssl(
        folder,
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "x.key",
        "-out",
        "other.pem",
        "-subj",
        "/CN=x",
    )
    (folder / "names").write_text(f"subjectAltName=IP:{HOST}")
    for who, more in (("broker", ["-extfile", "names"]), ("client", [])):
        locked = ["-passout", "pass:lock"] if who == "client" else ["-nodes"]
        made = ("-keyout", f"{who}.key", "-out", f"{who}.csr", "-subj", f"/CN={who}")
        openssl(folder, "req", "-newkey", "rsa:2048", *locked, *made)
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", f"{who}.pem", *more)
        openssl(folder, "x509", "-req", "-in", f"{who}.csr", *signing)
    (folder / "both.pem").write_text((folder / "broker.key").read_text() + (folder / "broker.pem").read_text())
    return folder


@pytest.fixture(scope="module")
def secured(certificates):
    """A broker with a listener of each kind; the address of each."""
    ports = dict(zip(LISTENERS, free_ports(HOST, len(LISTENERS)), strict=True))
    addresses = {name: f"{HOST}:{port}" for name, port in ports.items()}
    settings = {
        "listeners": ",".join(f"{name}://{address}" for name, address in addresses.items()),
        "advertised.listeners": ",".join(f"{name}://{at}" for name, at in addresses.items() if name != "CONTROLLER"),
        "controller.quorum.voters": f"1@{addresses['CONTROLLER']}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,"
        + ",".join(f"{name}:{name}" for name in LISTENERS if name != "CONTROLLER"),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "both.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.pem"),
        "listener.name.ssl.ssl.client.auth": "required",
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        for mechanism in MECHANISMS:
            module = PLAIN if mechanism == "PLAIN" else SCRAM
            settings[f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config"] = module
    with Broker(port=ports["PLAINTEXT"], java_options=[QUICK_START], settings=settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(kind, 4096)
            change = UserScramCredentialUpsertion("alice", info, USER["sasl.password"].encode())
            for done in admin.alter_user_scram_credentials([change]).values():
                done.result()
        yield addresses


def written(secured, name, protocol, **settings):
    """Write a row through a listener, with settings in librdkafka's names; return what is read through the open one."""
    given = {"security.protocol": protocol, **{key.replace("_", "."): value for key, value in settings.items()}}
    log, plain = KafkaLog(secured[protocol.upper()], given, timeout=10), KafkaLog(secured["PLAINTEXT"])
    topic = name("secured")
    plain.admin.ensure_topics([TopicSpec(topic, 1)])
    producer = log.producer(name("app"))
    assert isinstance(producer.wire, TransactionalWire)
    try:
        producer.init()
        producer.begin()
        producer.produce([(topic, 0, b"k", b"v" * 100_000, 5, ())] * 20)
        producer.send_offsets(name("group"), {(topic, 0): 1})
        producer.commit()
        return [len(record.value) for record in plain.reader().read(topic, 0, 0, 20)]
    finally:
        log.close()
        plain.close()


@pytest.fixture(autouse=True)
def built():
    if not producers.uses_wire():
        pytest.skip("the loops in C are not built here")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "sasl_ssl"])
def test_a_user_is_known_by_its_password(secured, certificates, name, protocol, mechanism):
    more = {"ssl.ca.location": str(certificates / "ca.pem")} if protocol == "sasl_ssl" else {}
    assert written(secured, name, protocol, sasl_mechanism=mechanism, **USER, **more) == [100_000] * 20


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused_at_once_with_a_remedy(secured, name, mechanism):
    with pytest.raises(BrokerError, match=r"begin as producer .*sasl\.\*") as caught:
        written(secured, name, "SASL_PLAINTEXT", sasl_mechanisms=mechanism, sasl_username="alice", sasl_password="no")
    assert caught.value.code == "SASL_AUTHENTICATION_FAILED"


@pytest.mark.parametrize("as_text", [False, True], ids=["files", "text"])
def test_a_client_is_known_by_its_certificate(secured, certificates, name, as_text):
    settings = {
        "ssl.ca.location": str(certificates / "ca.pem"),
        "ssl.certificate.location": str(certificates / "client.pem"),
        "ssl.key.location": str(certificates / "client.key"),
        "ssl.key.password": "lock",
    }
    settings = portable(settings) if as_text else settings
    assert written(secured, name, "SSL", **settings) == [100_000] * 20


def test_a_broker_that_nobody_vouches_for_is_refused_with_a_remedy(secured, certificates, name):
    wrong = {"ssl.ca.location": str(certificates / "other.pem"), "sasl.mechanism": "PLAIN", **USER}
    with pytest.raises(BrokerError, match=r"begin as producer .*ssl\.\*") as caught:
        written(secured, name, "SASL_SSL", **wrong)
    assert caught.value.code == "_SSL"
    unchecked = wrong | {"enable.ssl.certificate.verification": False}
    assert written(secured, name, "SASL_SSL", **unchecked) == [100_000] * 20


def test_the_name_of_a_broker_is_checked_unless_told_otherwise(secured, certificates, name):
    settings = {"ssl.ca.location": str(certificates / "ca.pem"), "sasl.mechanism": "PLAIN", **USER}
    secured = secured | {"SASL_SSL": secured["SASL_SSL"].replace(HOST, "localhost")}
    with pytest.raises(BrokerError, match=r"ssl\.\*"):
        written(secured, name, "SASL_SSL", **settings)
    settings["ssl.endpoint.identification.algorithm"] = "none"
    assert written(secured, name, "SASL_SSL", **settings) == [100_000] * 20
