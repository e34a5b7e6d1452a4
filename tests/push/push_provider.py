"""A sandbox push provider over real TLS on loopback, and the calls that it got."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from latchkey.process.local_ca.authority import LocalCertificates, ensure_certificates
from latchkey.push.push_client import PushClient
from latchkey.push.push_notification import RetryPolicy
from latchkey.push.sandbox.sandbox_app import Sandbox
from latchkey.push.sandbox.sandbox_database import SandboxDatabase
from tests.cli.running import ask
from tests.http.serving import serving
from tests.patience import PATIENCE

APP_ID = "0b2f3c1e-demo"
KEY = "os_v2_app_very-secret-key"
# As in production, with short waits.
QUICK = RetryPolicy(tries=4, timeout=60.0, first_wait=0.01, longest_wait=0.05, rate_limit_wait=0.01, deadline=PATIENCE)


def certificates_in(folder: Path) -> LocalCertificates:
    return ensure_certificates(folder, [], time.time_ns() // 1_000_000)


@dataclass
class Call:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@asynccontextmanager
async def answering(
    certificates: LocalCertificates, *answers: tuple[int, Any]
) -> AsyncIterator[tuple[str, list[Call]]]:
    """A provider that gives these answers one after the other; gives its URL and the calls that it got."""
    seen: list[Call] = []

    async def answer(request: Request) -> JSONResponse:
        seen.append(Call(request.url.path, dict(request.headers), await request.json()))
        status, said = answers[min(len(seen), len(answers)) - 1]
        return JSONResponse(said, status)

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])
    async with serving(app, certificates) as url:
        yield url, seen


@dataclass
class Provider:
    url: str
    sandbox: Sandbox
    certificates: LocalCertificates

    @property
    def authority(self) -> bytes:
        return self.certificates.authority.read_bytes()

    def client(self, key: str = KEY, app_id: str = APP_ID, policy: RetryPolicy = QUICK) -> PushClient:
        return PushClient(self.url, app_id, key, extra_ca=self.authority, policy=policy)

    async def call(
        self, method: str, path: str, value: Any = None, authorization: str = f"Basic {KEY}"
    ) -> tuple[int, Any]:
        """A plain HTTP request, without our client."""
        reply = await asyncio.to_thread(
            ask,
            self.url,
            method,
            path,
            value,
            authority=self.certificates.authority,
            headers={"Authorization": authorization},
        )
        return reply.status, reply.json()

    async def device(self, **fields: Any) -> str:
        status, said = await self.call("POST", "/api/v1/players", {"app_id": APP_ID, "device_type": 1, **fields}, "")
        assert (status, said["success"]) == (200, True)
        id: str = said["id"]
        return id

    async def sent(self) -> list[dict[str, Any]]:
        status, said = await self.call("GET", f"/api/v1/notifications?app_id={APP_ID}")
        assert status == 200
        found: list[dict[str, Any]] = said["notifications"]
        return found

    async def fault(self, kind: str, **more: Any) -> None:
        assert (await self.call("PUT", "/sandbox/fault", {"kind": kind, **more}))[0] == 200


@asynccontextmanager
async def providing(certificates: LocalCertificates, book: str = ":memory:") -> AsyncIterator[Provider]:
    sandbox = Sandbox(APP_ID, KEY, SandboxDatabase(book))
    async with serving(sandbox.application, certificates) as url:
        yield Provider(url, sandbox, certificates)
        sandbox.streams.close()
    sandbox.database.close()
