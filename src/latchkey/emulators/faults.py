"""A store's API that does not answer as it should."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from latchkey.emulators.misbehaviour import ApiFault

_PAGE = "<html><body><h1>{status}</h1><p>The server is temporarily unable to service your request.</p></body></html>"


class Broken(Response):
    """Ends the connection in the middle of an answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI calls it
        headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})


async def around(fault: ApiFault | None, answer: Callable[[], Awaitable[Response]], *, busy: bytes = b"{}") -> Response:
    """`busy` is the body with which this store says that there were too many calls."""
    if fault is None:
        return await answer()
    match fault.kind:
        case "down":
            return Broken()
        case "busy":
            return Response(busy, 429, {"Retry-After": str(fault.retry_after)}, "application/json")
        case "error":
            return Response(_PAGE.format(status=fault.status), fault.status, media_type="text/html")
        case "slow":
            await asyncio.sleep(fault.seconds)
            return await answer()
        case "lost":
            await answer()
            return Response("upstream connect error", 502, media_type="text/plain")
        case "truncated":
            whole = await answer()
            return Response(bytes(whole.body)[: len(whole.body) // 2], whole.status_code, media_type=whole.media_type)
