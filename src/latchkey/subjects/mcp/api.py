"""`/mcp`: the protocol over HTTP. A tool's request goes through the whole application, with the caller's key."""

import asyncio
from functools import cache, partial
from importlib import import_module
from typing import Any

from latchkey.http.authentication import Call, SecretKey
from latchkey.http.errors import Forbidden, NoSuchPath
from latchkey.http.inner_request import Captured, inner_request
from latchkey.http.routing import Response, Router, reply
from latchkey.subjects.mcp import rules
from latchkey.subjects.mcp.rules import ToolRequest

router = Router(include_in_schema=False)


@router.post("/mcp")
async def answer_message(call: SecretKey, message: dict[str, Any]) -> Response:
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
    try:
        protocol.check_message(message, by_name=False)
    except ValueError:
        said = 'This is no message: `jsonrpc` is "2.0", `method` is a text, and `params`, if there are any, an object.'
        return reply({"jsonrpc": "2.0", "id": None, "error": {"code": protocol.INVALID_REQUEST, "message": said}}, 400)
    tools = await asyncio.to_thread(_tools, call.request.app)
    served = protocol.server(tools, call.project_id, partial(_ask, call), call.caller.scopes)
    captured = Captured(await call.request.body())
    await protocol.answer_http(served, call.request.scope, captured.receive, captured.send)
    lines = {name.decode(): value.decode("latin-1") for name, value in captured.headers}
    return Response(captured.body, captured.status, headers=lines)


@cache
def _tools(app: Any) -> Any:
    return import_module("latchkey.subjects.mcp.usecases").tools_of(app.openapi())


async def _ask(call: Call, request: ToolRequest) -> tuple[int, bytes]:
    made = inner_request(call.request.scope, request.method, request.target, request.headers, (b"authorization",))
    captured = Captured(request.body)
    await call.services.application(made, captured.receive, captured.send)
    return captured.status, captured.body
