"""`latchkey mcp`: the same tools over standard input and output, for a program on this machine that starts it."""

import asyncio
import os
from pathlib import Path

from latchkey.cli.command import option
from latchkey.cli.data_folder import read_json
from latchkey.cli.service_client import ServiceClient
from latchkey.cli.target_database import DATA
from latchkey.domain.refusal import Refusal
from latchkey.subjects.mcp import usecases
from latchkey.subjects.mcp.rules import ToolRequest

KEY = "LATCHKEY_API_KEY"
_SECONDS = 60


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
    asyncio.run(_serve(address, key, trusted))


async def _serve(address: str, key: str, trusted: bytes | None) -> None:
    async with ServiceClient(address, key, trusted, timeout=_SECONDS, user_agent="latchkey-mcp") as service:

        async def ask(request: ToolRequest) -> tuple[int, bytes]:
            response = await service.send(
                request.method, request.target, headers=request.headers, body=request.body or None
            )
            return response.status, response.body

        projects, document = await service.ask("GET", "/v2/projects"), await service.ask("GET", "/openapi.json")
        tools = usecases.tools_of(document)
        await usecases.serve_stdio(usecases.server(tools, projects["items"][0]["id"], ask))
