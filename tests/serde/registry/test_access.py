"""Who may ask a registry: in front of a real one stands a server that wants a user, a token, or a certificate of its own CA."""

from __future__ import annotations

import base64
import http.client
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from tests.serde.registry.shop import Order

from penstock import SchemaRegistry, Serdes
from penstock.errors import RegistryError

USER = "Basic " + base64.b64encode(b"me:open sesame").decode()


class Gate(BaseHTTPRequestHandler):
    """Passes on what brings the right header."""

    registry: str
    wants: str

    def pass_on(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size)
        if self.wants and self.headers.get("Authorization") != self.wants:
            return self.answer(401, b'{"error_code": 401, "message": "who are you?"}')
        there = urlsplit(self.registry)
        connection = http.client.HTTPConnection(there.netloc)
        connection.request(self.command, there.path + self.path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return self.answer(answer.status, answer.read())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.pass_on()

    def do_POST(self) -> None:
        self.pass_on()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gate(schema_registry):
    servers = []

    def opened(wants: str, context: ssl.SSLContext | None = None) -> str:
        handler = type("Handler", (Gate,), {"registry": schema_registry.url, "wants": wants})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"{'http' if context is None else 'https'}://localhost:{server.server_address[1]}"

    yield opened
    for server in servers:
        server.shutdown()
        server.server_close()


def written(registry: SchemaRegistry, topic: str) -> bytes:
    return Serdes.avro(Order, registry=registry).bound_to(topic).serialize(Order("ann", 1))


@pytest.mark.parametrize(
    ("wants", "right", "wrong"),
    [
        (USER, {"basic_auth": "me:open sesame"}, {"basic_auth": "me:guess"}),
        ("Bearer abc", {"bearer_token": "abc"}, {"bearer_token": "xyz"}),
    ],
    ids=["user", "token"],
)
def test_credentials_are_brought_and_wrong_ones_are_told(gate, name, wants, right, wrong):
    url = gate(wants)
    assert written(SchemaRegistry(url=url, **right), name("orders"))[:1] == b"\0"
    for given in ({}, wrong):
        with pytest.raises(RegistryError, match=r"401(.|\n)*remedy") as refused:
            written(SchemaRegistry(url=url, **given), name("orders"))
        assert not refused.value.retriable, "an application with wrong credentials ends"
        assert refused.value.code == "REGISTRY_NOT_AUTHORIZED"


def test_tls_with_certificates_of_both_sides(gate, name, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run([*command.split(), "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    url = gate("", context)
    files = {"ca": str(certificate), "certificate": str(certificate), "key": str(key)}
    assert written(SchemaRegistry(url=url, **files), name("orders"))[:1] == b"\0"
    with pytest.raises(RegistryError, match="CERTIFICATE_VERIFY_FAILED"):
        written(SchemaRegistry(url=url), name("orders"))


def test_the_second_address_answers_when_the_first_does_not(schema_registry, name):
    assert written(SchemaRegistry(url=f"http://127.0.0.1:9,{schema_registry.url}"), name("orders"))[:1] == b"\0"
