"""The official client of the protocol, over real HTTPS and over stdio."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from latchkey.now import real_now
from latchkey.process.local_ca.authority import LocalCertificates, ensure_certificates
from tests.cli.running import LATCHKEY, clean_environment
from tests.http.client import Shop
from tests.http.serving import serving


@dataclass(frozen=True)
class Site:
    """The shop at an https:// address."""

    shop: Shop
    url: str
    certificates: LocalCertificates

    @asynccontextmanager
    async def over_http(self, key: str | None = None, mode: str = "auto") -> AsyncIterator[Client]:
        sent = {"authorization": f"Bearer {key or self.shop.secret}"}
        context = ssl.create_default_context(cafile=str(self.certificates.authority))
        async with (
            httpx2.AsyncClient(headers=sent, verify=context) as http,
            Client(streamable_http_client(f"{self.url}/mcp", http_client=http), mode=mode) as client,
        ):
            yield client

    @asynccontextmanager
    async def over_stdio(self, key: str | None = None) -> AsyncIterator[Client]:
        command = StdioServerParameters(
            command=str(LATCHKEY),
            args=["mcp", "--url", self.url, "--ca", str(self.certificates.authority)],
            env=clean_environment(LATCHKEY_API_KEY=key or self.shop.secret),
        )
        async with Client(command) as client:
            yield client


@asynccontextmanager
async def opened_site(shop: Shop, folder: Path) -> AsyncIterator[Site]:
    certificates = ensure_certificates(folder, [ip_address("127.0.0.1")], real_now())
    async with serving(shop.client.app, certificates) as url:
        yield Site(shop, url, certificates)


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The result of a call that works."""
    result: Any = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """What a call is refused with."""
    result: Any = await client.call_tool(tool, arguments)
    assert result.is_error, result.content[0].text
    text: str = result.content[0].text
    return text
