"""The same application over real sockets: granian, TLS, HTTP/1.1 and HTTP/2."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from ipaddress import ip_address
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from latchkey import server
from latchkey.database.pool import Database
from latchkey.process.http_application import create_application
from latchkey.server import Listener
from latchkey.settings import Settings
from latchkey.subjects.demo.usecases.project import Demo, ensure_demo
from tests.http.client import Clock
from tests.patience import PATIENCE

MIB = 1024 * 1024


@dataclass
class Site:
    port: int
    certificate: Path
    demo: Demo

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"


def certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made.public_bytes(Encoding.PEM))
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return cert_file, key_file


@pytest.fixture
async def site(database: Database, tmp_path: Path) -> AsyncIterator[Site]:
    cert, key = certificate(tmp_path)
    clock = Clock()
    demo = await ensure_demo(database, clock.now, secret_key=None, public_key=None)
    settings = Settings(database_url=database.url, secret_key=bytes(32), tls_cert=cert, tls_key=key)
    with socket(AF_INET, SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listener = Listener(create_application(database, settings, clock), listening, settings)
        serving = asyncio.create_task(listener.serve())
        yield Site(listening.getsockname()[1], cert, demo)
        listener.stop()
        await asyncio.wait_for(serving, PATIENCE)


async def raw(site: Site, request: bytes) -> bytes:
    """The reply to exactly these bytes."""
    context = ssl.create_default_context(cafile=str(site.certificate))
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, ssl=context)
    writer.write(request)
    await writer.drain()
    reply = await asyncio.wait_for(reader.read(65_536), PATIENCE)
    writer.close()
    return reply


async def test_a_path_arrives_as_it_was_sent(site: Site) -> None:
    async def status(path: bytes) -> bytes:
        key = site.demo.secret_key.encode()
        request = b"GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n"
        return (await raw(site, request % (path, key)))[9:12]

    assert await status(b"/v1/subscribers/nobody") == b"201"
    assert await status(b"/v1/subscribers/a%2Fb") == b"400"
    assert await status(b"/v1/subscribers/a%252Fb") == b"201"
    assert await status(b"/v1/subscribers/a%00b") == b"400"
    assert await status(b"/v1/subscribers/%FF") == b"400"
    assert await status(b"/v1/subscribers/..") == b"400"
    assert await status(b"/v1/subscribers/a%3Fb?c=d") == b"201"


async def test_a_body_that_is_too_large_is_refused_before_it_was_all_sent(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 0.1)
    key = site.demo.secret_key.encode()
    head = b"POST /v1/receipts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
    reply = await raw(site, head % key + b"Content-Length: 99999999\r\n\r\n{")
    assert reply.startswith(b"HTTP/1.1 413")
    chunk = b"%x\r\n%s\r\n" % (MIB, b" " * MIB)
    reply = await raw(site, head % key + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 2)
    assert reply.startswith(b"HTTP/1.1 413")


async def test_a_client_that_sends_all_before_it_reads_sees_why_it_was_refused(site: Site) -> None:
    def post(path: str) -> int:
        context = ssl.create_default_context(cafile=str(site.certificate))
        connection = HTTPSConnection("127.0.0.1", site.port, context=context, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {site.demo.secret_key}", "Content-Type": "application/json"}
        try:
            connection.request("POST", path, b" " * (2 * MIB), headers)
            return connection.getresponse().status
        finally:
            connection.close()

    revoke = "/v1/subscribers/ada/subscriptions/pro_monthly/revoke"
    for path, status in (("/v1/receipts", 413), (revoke, 413), ("/nothing", 404), ("/healthz", 405)):
        # If the server did not read the whole body, about every second client would get a broken connection.
        assert [await asyncio.to_thread(post, path) for _ in range(4)] == [status] * 4
