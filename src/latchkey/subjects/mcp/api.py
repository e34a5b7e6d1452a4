"""`/mcp`: the protocol over HTTP. A tool's request goes through the whole application, with the caller's key."""

import asyncio
from functools import cache
from importlib import import_module
from typing import Any

from msgspec import Struct

from latchkey.http.authentication import Call, SecretKey
from latchkey.http.errors import Forbidden, NoSuchPath
from latchkey.http.routing import Response, Router
from latchkey.subjects.mcp import rules
from latchkey.subjects.mcp.rules import ToolRequest

router = Router(include_in_schema=False)

# Of the caller's request: who they are, and from where.
_PASSED_ON = frozenset({b"authorization", b"x-forwarded-for", b"host"})


class _Captured(Struct):
    """An ASGI request with this body, and its response."""

    request: bytes
    status: int = 0
    headers: list[tuple[bytes, bytes]] = []
    body: bytes = b""
    is_read: bool = False

    async def receive(self) -> dict[str, Any]:
        if self.is_read:
            return {"type": "http.disconnect"}
        self.is_read = True
        return {"type": "http.request", "body": self.request, "more_body": False}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message.get("headers", ()))
        else:
            self.body += message.get("body", b"")


@router.post("/mcp")
async def answer_message(call: SecretKey, message: dict[str, Any]) -> Response:  # noqa: ARG001  # only checked here
    """A message of the Model Context Protocol. Nothing is pushed, so there is no stream to GET."""
    headers = call.request.headers
    problem = rules.problem_with_origin(headers.get("host", ""), headers.get("origin"), call.services.public_url)
    if problem is not None:
        raise Forbidden(problem)
    try:
        # In a thread, because it takes a second the first time.
        protocol = await asyncio.to_thread(import_module, "latchkey.subjects.mcp.usecases")
    except ModuleNotFoundError:
        raise NoSuchPath("The extra `mcp` is not installed here: pip install 'latchkey[service,mcp]'.") from None
    tools = await asyncio.to_thread(_tools, call.request.app)

    async def ask(request: ToolRequest) -> tuple[int, bytes]:
        return await _ask(call, request)

    served = protocol.server(tools, call.project_id, ask, call.caller.scopes)
    captured = _Captured(await call.request.body())
    await protocol.answer_http(served, call.request.scope, captured.receive, captured.send)
    lines = {name.decode(): value.decode("latin-1") for name, value in captured.headers}
    return Response(captured.body, captured.status, headers=lines)


@cache
def _tools(app: Any) -> Any:
    return import_module("latchkey.subjects.mcp.usecases").tools_of(app.openapi())


async def _ask(call: Call, request: ToolRequest) -> tuple[int, bytes]:
    scope = call.request.scope
    path, _, query = request.target.partition("?")
    headers = [line for line in scope["headers"] if line[0] in _PASSED_ON]
    headers += [(name.encode(), value.encode()) for name, value in request.headers.items()]
    inner = {
        **{
            name: value for name, value in scope.items() if name in {"type", "asgi", "http_version", "scheme", "client"}
        },
        "method": request.method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "server": scope.get("server"),
        "state": {},
    }
    captured = _Captured(request.body)
    await call.services.application(inner, captured.receive, captured.send)
    return captured.status, captured.body
