"""No secret is in any output: tables, JSON, errors, logs, reprs, command lines.

What an application that runs says, and its command lines: ``tests/app/test_private_files.py``, ``tests/app/test_stopping.py``.
"""

import ctypes
import json
import logging
import pickle
import re
import tempfile
from pathlib import Path

import pytest
from confluent_kafka import cimpl
from typer.testing import CliRunner

from penstock import config as configuration
from penstock.cli.app import app
from penstock.errors import ConfigError
from penstock.log.client import Connection
from penstock.log.kafka import KafkaLog
from penstock.masking import is_secret, masked

RUNNER = CliRunner()
HUSH = "hush-4711-canary"


def client_properties() -> list[str]:
    """Return the names of all settings that librdkafka has, as it lists them itself."""
    library, system = ctypes.CDLL(cimpl.__file__), ctypes.CDLL(None)
    system.fopen.restype = ctypes.c_void_p
    system.fclose.argtypes = library.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
    with tempfile.NamedTemporaryFile() as file:
        stream = system.fopen(file.name.encode(), b"w")
        library.rd_kafka_conf_properties_show(stream)
        system.fclose(stream)
        rows = [line.partition("|") for line in Path(file.name).read_text().splitlines()]
    return [name.strip() for name, bar, _ in rows if bar]


#: what may have to do with a secret, by its name
SECURITY = [name for name in client_properties() if re.search("sasl|ssl|pass|secret|token|cred|priv|pem|auth", name)]
#: of these, the ones that say how and where; whatever else there is, or comes with a later version, is not shown
HARMLESS = {
    "enable.sasl.oauthbearer.unsecure.jwt",
    "enable.ssl.certificate.verification",
    "sasl.kerberos.keytab",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.grant.type",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.username",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.cipher.suites",
    "ssl.crl.location",
    "ssl.curves.list",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.location",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.providers",
    "ssl.sigalgs.list",
}
#: every setting of a client that is or may hold a secret
SECRETS = [
    *(name for name in SECURITY if name not in HARMLESS),
    "sasl.jaas.config",
    "producer.sasl.password",
    "consumer.ssl.key.pem",
    "admin.sasl.oauthbearer.config",
]
#: what users call theirs
OWN = ["api_key", "apiKey", "db-password", "PASSWD", "smtp_pwd", "stripe.secret", "AWS_SECRET_ACCESS_KEY", "token"]
KAFKA = {
    **dict.fromkeys(SECRETS, f"-----{HUSH}\nKEY-----"),
    "sasl.oauthbearer.token.endpoint.url": f"https://me:{HUSH}@auth.example/token",
    "sasl.username": "me",
    "security.protocol": "SASL_SSL",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder whose settings are full of secrets, the current one."""
    rows = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in KAFKA.items())
    (tmp_path / "pyproject.toml").write_text(f"[tool.penstock.kafka]\n{rows}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(*arguments: str, code: int | None = None, **environment: str) -> str:
    result = RUNNER.invoke(app, list(arguments), env=environment)
    assert code is None or result.exit_code == code, result.output
    return result.output + result.stderr + repr(result.exception)


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["table", "json"])
def test_config_hides_every_setting_that_may_hold_one_and_shows_the_others(folder, form):
    shown = said("config", *form, code=0)
    assert HUSH not in shown
    assert "SASL_SSL" in shown
    assert "auth.example/token" in shown


def test_every_setting_of_the_client_for_security_is_known_as_harmless_or_hidden():
    assert {"sasl.password", "ssl.key.pem", "ssl.key.password", "sasl.oauthbearer.client.secret"} <= set(SECURITY)
    assert {name for name in SECURITY if not is_secret(name)} <= HARMLESS


def holding_secrets(row):
    """Return a value of a setting that has a secret wherever one may be, None if its kind cannot have any."""
    if row.kind == "mapping":
        return {"nothing": HUSH} if row.name == "user_config" else KAFKA
    if row.kind in ("str", "str or None", "serde", "extractor"):
        return f"https://me:{HUSH}@host"
    assert row.kind in ("int", "int or None", "bool", "policy", "names"), f"may a {row.kind} hold a secret?"
    return None


@pytest.mark.parametrize("row", configuration.SETTINGS, ids=lambda row: row.name)
def test_config_shows_no_secret_of_any_setting(row, tmp_path, monkeypatch):
    value = holding_secrets(row)
    if value is None:
        return
    rows = {row.name: value} if isinstance(value, str) else {f"{row.name}.{json.dumps(n)}": v for n, v in value.items()}
    table = "".join(f"{name} = {json.dumps(data)}\n" for name, data in rows.items())
    (tmp_path / "pyproject.toml").write_text(f"[tool.penstock]\n{table}")
    monkeypatch.chdir(tmp_path)
    for form in ("config",), ("config", "--json"):
        shown = said(*form)
        assert HUSH not in shown
        assert "***" in shown or "must be one of" in shown


@pytest.mark.parametrize("name", [*SECRETS, *OWN])
def test_each_one_alone_is_hidden(name):
    assert masked({name: HUSH}) == {name: "***"}


@pytest.mark.parametrize(
    "command",
    [("status", "--application-id", "a"), ("topics", "list"), ("doctor",), ("doctor", "--json"), ("consume", "t")],
    ids=" ".join,
)
def test_commands_whose_client_settings_are_refused_do_not_show_them(folder, command):
    shown = said(*command, "--bootstrap", f"localhost:1,SASL_SSL://me:{HUSH}@localhost:1")
    assert HUSH not in shown


@pytest.mark.parametrize("value", [f"sasl.password={HUSH}", f'{{"sasl.password": "{HUSH}"', HUSH])
def test_a_refused_environment_variable_is_named_and_not_shown(value):
    shown = said("config", code=2, PENSTOCK_KAFKA=value)
    assert "PENSTOCK_KAFKA" in shown
    assert HUSH not in shown
    with pytest.raises(ConfigError) as caught:
        configuration.load({}, environ={"PENSTOCK_KAFKA": value})
    assert caught.value.__cause__ is None
    assert HUSH not in str(caught.value)


def test_a_secret_on_the_command_line_is_refused_with_the_remedy_and_read_from_a_file(tmp_path):
    shown = said("topics", "list", "--client", f"sasl.password={HUSH}", code=2)
    assert HUSH not in shown
    assert "sasl.password=@FILE" in shown
    (tmp_path / "password").write_text(f"{HUSH}\n")
    shown = said(
        "topics", "list", "-b", "localhost:1", "--client", f"sasl.password=@{tmp_path}/password", "--client", "x.y=1"
    )
    assert "No such configuration property" in shown
    assert HUSH not in shown


def test_neither_errors_nor_logs_of_the_clients_show_one(caplog):
    """librdkafka hides some of them itself, and repeats others when they are refused."""
    caplog.set_level(logging.DEBUG)
    refused = {"ssl.key.pem": HUSH, "security.protocol": HUSH, "sasl.oauthbearer.config": f"principal={HUSH}"}
    for settings in (
        {"sasl.password": HUSH} | refused,
        {"ssl.key.pem": HUSH, "security.protocol": "ssl", "debug": "all"},
    ):
        with pytest.raises(ConfigError) as caught:
            KafkaLog("localhost:1", settings, timeout=1).admin.topics()
        assert HUSH not in str(caught.value)
        assert caught.value.__cause__ is None
    log = KafkaLog("localhost:1", {"sasl.oauthbearer.config": f"principal={HUSH}", "debug": "conf,generic"}, timeout=1)
    with pytest.raises(Exception) as caught:  # noqa: PT011 (whatever it is)
        log.admin.topics()
    log.close()
    assert HUSH not in str(caught.value)
    assert HUSH not in caplog.text


def test_what_holds_settings_does_not_show_them():
    connection = Connection("localhost:1", KAFKA)
    assert HUSH not in repr(connection)
    assert HUSH in repr(pickle.loads(pickle.dumps(connection)).settings("producer"))  # they are there
