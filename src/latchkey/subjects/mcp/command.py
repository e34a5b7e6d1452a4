"""`latchkey mcp`: the same tools over standard input and output, for a program on this machine that starts it."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import DecodeError, json

from latchkey.cli.command import option
from latchkey.cli.data_folder import read_json
from latchkey.cli.target_database import DATA
from latchkey.domain.refusal import Refusal
from latchkey.http_client import HttpClient, HttpError
from latchkey.subjects.mcp import usecases
from latchkey.subjects.mcp.rules import ToolRequest

KEY = "LATCHKEY_API_KEY"
_SECONDS = 60
_MOST_BYTES = 32 * 1024 * 1024


def mcp(
    url: str | None = option("The https:// address of the service. Default: that of `latchkey up`."),
    ca: Path | None = option("A certificate authority to trust besides the system's."),
    data: Path = option("The data folder of a running `latchkey up`, used without --url.", default=DATA),
) -> None:
    """Give an assistant or editor the API as MCP tools on stdin and stdout. The key is in LATCHKEY_API_KEY."""
    up = {} if url else read_json(data / "connection.json")
    address, key = url or up.get("base_url"), os.environ.get(KEY) or up.get("api_key")
    if not address:
        raise Refusal(f"Name the service with --url: {data} is not the folder of a running `latchkey up`.")
    if not key:
        raise Refusal(f"Set {KEY} to a secret API key of the project.")
    authority = ca or (Path(up["ca_cert"]) if "ca_cert" in up else None)
    try:
        trusted = authority.read_bytes() if authority else None
    except OSError as error:
        raise Refusal(f"{authority} cannot be read: {error.strerror}.") from None
    asyncio.run(_serve(address.rstrip("/"), key, trusted))


async def _serve(address: str, key: str, trusted: bytes | None) -> None:
    async with HttpClient(extra_ca=trusted, timeout=_SECONDS, user_agent="latchkey-mcp") as http:

        async def ask(request: ToolRequest) -> tuple[int, bytes]:
            response = await http.ask(
                request.method,
                address + request.target,
                headers=request.headers,
                authorization=f"Bearer {key}",
                body=request.body or None,
                most_bytes=_MOST_BYTES,
            )
            return response.status, response.body

        async def read(target: str) -> Mapping[str, Any]:
            try:
                status, body = await ask(ToolRequest("GET", target))
                found: dict[str, Any] = json.decode(body, type=dict[str, Any])
            except (HttpError, DecodeError, ValueError) as error:
                raise Refusal(f"{address} does not answer as a Latchkey service does: {error}") from None
            if status != 200:
                raise Refusal(f"{address} refused the key: {found.get('message', status)}")
            return found

        projects, document = await read("/v2/projects"), await read("/openapi.json")
        tools = usecases.tools_of(document)
        await usecases.serve_stdio(usecases.server(tools, projects["items"][0]["id"], ask))
