"""Exchange rates from an address: guarded as a webhook is."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from latchkey.subjects.money.usecases import RateSource, SourceUnreadable
from latchkey.subjects.webhooks.receiver import tls
from tests.subjects.webhooks.delivery.certificates import Certificates

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
CSV = b"date,currency,usd\n2026-11-13,EUR,1.0834\n"


@asynccontextmanager
async def answering(certs: Certificates, answer: bytes) -> AsyncIterator[int]:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0, ssl=tls(*certs.good)) as server:
        yield server.sockets[0].getsockname()[1]


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body


def source(certs: Certificates, allowed: bool = True) -> RateSource:
    return RateSource(allowed=LOOPBACK if allowed else (), extra_ca=certs.authority, lookup=lambda *_: ["127.0.0.1"])


async def test_an_allowed_address_is_read(certs: Certificates) -> None:
    async with answering(certs, ok(CSV)) as port:
        assert await source(certs).read(f"https://localhost:{port}/rates.csv") == CSV.decode()


async def test_a_private_address_is_not_called(certs: Certificates) -> None:
    async with answering(certs, ok(CSV)) as port:
        with pytest.raises(SourceUnreadable, match=r"address not allowed: localhost is 127\.0\.0\.1 \(loopback\)"):
            await source(certs, allowed=False).read(f"https://localhost:{port}/rates.csv?key=secret")


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere.example\r\nContent-Length: 0\r\n\r\n", "not followed"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "answered 503"),
    ],
)
async def test_another_answer_is_said_and_not_taken(certs: Certificates, answer: bytes, complaint: str) -> None:
    async with answering(certs, answer) as port:
        with pytest.raises(SourceUnreadable, match=complaint) as refused:
            await source(certs).read(f"https://localhost:{port}/rates.csv?key=secret")
        assert "secret" not in refused.value.message


async def test_only_https_is_read(certs: Certificates) -> None:
    with pytest.raises(SourceUnreadable, match="must begin with https"):
        await source(certs).read("http://localhost/rates.csv")
