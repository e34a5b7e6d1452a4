"""A service that takes notifications on loopback, and answers as it is told."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from latchkey.emulators.emulator_server import bind
from latchkey.process.local_ca.authority import LocalCertificates
from latchkey.server import Listener
from latchkey.settings import Settings
from tests.patience import PATIENCE


@dataclass
class Taken:
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


@dataclass
class Service:
    url: str = ""
    status: int = 200
    taken: list[Taken] = field(default_factory=list)

    async def take(self, request: Request) -> Response:
        self.taken.append(Taken(dict(request.headers), await request.body()))
        return Response(f"answer {len(self.taken)}", self.status)


@contextlib.asynccontextmanager
async def receiving(certificates: LocalCertificates | None = None) -> AsyncIterator[Service]:
    """Over HTTPS with `certificates`, else over HTTP."""
    service = Service()
    listening = bind("127.0.0.1", 0)
    application = Starlette(routes=[Route("/incoming", service.take, methods=["POST"])])
    settings = Settings(behind_proxy=True)
    if certificates is not None:
        settings = Settings(tls_cert=certificates.cert, tls_key=certificates.key)
    listener = Listener(application, listening, settings)
    serving = asyncio.create_task(listener.serve())
    scheme = "https" if certificates else "http"
    service.url = f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/incoming"
    try:
        yield service
    finally:
        listener.stop()
        await asyncio.wait_for(serving, PATIENCE)
        listening.close()
