"""A service that takes notifications on loopback, and answers as it is told."""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from latchkey.process.local_ca.authority import LocalCertificates
from tests.http.serving import serving


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
    application = Starlette(routes=[Route("/incoming", service.take, methods=["POST"])])
    async with serving(application, certificates) as url:
        service.url = f"{url}/incoming"
        yield service
