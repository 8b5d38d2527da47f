"""Encryption and authentication: TLS from the ssl.* settings, and SASL by PLAIN and SCRAM (RFC 5802)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import ssl
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.kafka_wire.errors import Refused
from penstock.kafka_wire.settings import ProducerSettings

SASL_FAILED = 58
#: sends bytes to the broker, returns what it answers
Exchange = Callable[[bytes], bytes]


def tls_context(settings: ProducerSettings) -> ssl.SSLContext:
    """Return the TLS context of the settings; certificates and keys are files or their text."""
    given = settings.ssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    verified = given.get("enable.ssl.certificate.verification", "true").lower() in ("true", "1", "t")
    context.check_hostname = verified and given["identification"] != "none"
    context.verify_mode = ssl.CERT_REQUIRED if verified else ssl.CERT_NONE
    if location := given.get("ssl.ca.location"):
        if Path(location).is_dir():
            context.load_verify_locations(capath=location)
        elif location != "probe":
            context.load_verify_locations(cafile=location)
    if text := given.get("ssl.ca.pem"):
        context.load_verify_locations(cadata=text)
    if given.get("ssl.ca.location") in (None, "probe") and not given.get("ssl.ca.pem"):
        context.load_default_certs()
    with tempfile.TemporaryDirectory(prefix="penstock-tls-") as folder:
        certificate = _file(folder, given, "ssl.certificate")
        key = _file(folder, given, "ssl.key")
        if certificate is not None:
            context.load_cert_chain(certificate, key, given.get("ssl.key.password", ""))
    return context


def _file(folder: str, given: Mapping[str, str], name: str) -> str | None:
    """Return a file with a certificate or key: Python's ssl reads nothing else."""
    if location := given.get(f"{name}.location"):
        return location
    if not (text := given.get(f"{name}.pem")):
        return None
    path = Path(folder) / name
    path.touch(mode=0o600)
    path.write_text(text)
    return str(path)


def authenticate(settings: ProducerSettings, exchange: Exchange) -> None:
    """Authenticate to a broker by SASL."""
    if settings.mechanism == "PLAIN":
        exchange(f"\0{settings.username}\0{settings.password}".encode())
    else:
        _scram(settings, exchange, hashlib.sha256 if settings.mechanism.endswith("256") else hashlib.sha512)


def _scram(settings: ProducerSettings, exchange: Exchange, hashed: Callable[[], hashlib._Hash]) -> None:
    """Authenticate by SCRAM: both sides prove that they know the password without sending it."""
    name = hashed().name
    nonce = secrets.token_hex(16)
    escaped = settings.username.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={escaped},r={nonce}"
    first = exchange(f"n,,{bare}".encode()).decode()
    told = dict(part.split("=", 1) for part in first.split(","))
    if not told.get("r", "").startswith(nonce) or int(told.get("i", "0")) < 1:
        raise Refused(SASL_FAILED, "the broker's answer does not fit the question")
    salted = hashlib.pbkdf2_hmac(name, settings.password.encode(), base64.b64decode(told["s"]), int(told["i"]))
    keyed = hmac.digest(salted, b"Client Key", name)
    stored = hashlib.new(name, keyed).digest()
    last = f"c=biws,r={told['r']}"
    everything = f"{bare},{first},{last}".encode()
    proof = bytes(a ^ b for a, b in zip(keyed, hmac.digest(stored, everything, name), strict=True))
    final = exchange(f"{last},p={base64.b64encode(proof).decode()}".encode()).decode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), everything, name)
    given = dict(part.split("=", 1) for part in final.split(",")).get("v", "")
    if not hmac.compare_digest(base64.b64decode(given), expected):
        raise Refused(SASL_FAILED, "the broker does not know the password")
