"""Let a Java that came with pip trust whom this machine trusts.

A Java installed by the system shares the system's certificates; one inside a wheel brings its own list, and a download
through a proxy that the machine trusts (common in companies) fails. Python knows the machine's list: here it is written as
a file that Java reads.

    file   = magic FEEDFEED, version 2 (int each), count (int), entry*, digest
    entry  = 2 (int: a certificate), alias, milliseconds (long), "X.509", size (int), certificate (DER)
    digest = SHA-1 of password (UTF-16), "Mighty Aphrodite", and all before; texts have their length (short) before them
"""

from __future__ import annotations

import hashlib
import ssl
import struct
from collections.abc import Iterable
from pathlib import Path

#: where Linux distributions keep the list as one file
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem")
_PASSWORD = "changeit"  # Java's own default; it protects nothing, the list is public


def trust_options(folder: Path) -> list[str]:
    """Return the options that make a JVM trust whom this machine trusts; none if the machine has no list."""
    certificates = _certificates()
    if not certificates:
        return []
    path = folder / "trusted.jks"
    path.write_bytes(key_store(certificates))
    return [f"-Djavax.net.ssl.trustStore={path}", "-Djavax.net.ssl.trustStoreType=JKS"]


def key_store(certificates: Iterable[bytes]) -> bytes:
    """Write certificates as a Java key store."""
    entries = [
        struct.pack(">i", 2) + _text(f"c{number}") + bytes(8) + _text("X.509") + struct.pack(">i", len(der)) + der
        for number, der in enumerate(certificates)
    ]
    data = struct.pack(">Iii", 0xFEEDFEED, 2, len(entries)) + b"".join(entries)
    return data + hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + data).digest()


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _certificates() -> list[bytes]:
    context = ssl.create_default_context()
    bundle = next((path for path in _BUNDLES if Path(path).is_file()), None)
    if (
        not context.get_ca_certs() and bundle is not None
    ):  # Python looks into a folder of certificates only when it must
        context.load_verify_locations(cafile=bundle)
    return context.get_ca_certs(binary_form=True)
