"""`latchkey receiver`: see webhooks arrive. Connects itself to the demo project of a running `latchkey up`."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from msgspec import convert
from pyreqwest.client import ClientBuilder
from rich.console import Console

from latchkey.cli.data_folder import Connection, DataFolder
from latchkey.cli.files import read_json
from latchkey.delivery.receiver import Arrival, Receiver, listen, tls

NAME = "latchkey receiver"
_COLOURS = {"EXPIRATION": "red", "REFUND": "red", "BILLING_ISSUE": "yellow", "CANCELLATION": "yellow"}


def receiver(
    data: Annotated[Path, typer.Option(help="The data folder of a running `latchkey up`.")] = Path(".latchkey"),
    port: Annotated[int, typer.Option(help="The port to listen on; 0 picks a free one.", min=0, max=65535)] = 0,
    path: Annotated[str, typer.Option(help="How to behave: /, /status/503, /flaky/2, /slow/250, /hang, ...")] = "/",
    bodies: Annotated[bool, typer.Option("--bodies", help="Show the whole event, too.")] = False,
) -> None:
    """Receive webhooks on this machine and show what arrives, well behaved or badly on request."""
    console = Console(highlight=False)
    folder = DataFolder(data)
    found = read_json(folder.connection)
    if not found:
        console.print(f"[bold red]Error:[/bold red] nothing runs in {data}. Start it first: latchkey up --data {data}")
        raise typer.Exit(1)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        connection = convert(found, Connection)
        authority = Path(connection.ca_cert).read_bytes()
        runner.run(_run(console, folder, connection, authority, port, path, bodies))


async def _run(
    console: Console,
    folder: DataFolder,
    connection: Connection,
    authority: bytes,
    port: int,
    path: str,
    bodies: bool,
) -> None:
    def told(arrival: Arrival, did: str) -> None:
        event = arrival.event
        colour = _COLOURS.get(event.type, "green")
        answered = did.removeprefix("status ")
        console.print(
            f"[{colour}]{event.type:<30}[/] {event.app_user_id:<24} #{event.sequence:<4} answered {answered}",
            soft_wrap=True,
        )
        if bodies:
            console.print_json(arrival.body.decode("utf-8", "replace"))

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = await listen(Receiver(told), tls(folder.tls / "server.pem", folder.tls / "server.key"), port=port)
    address: Any = server.sockets[0].getsockname()  # type: ignore[attr-defined]  # asyncio's own Server has it
    url = f"https://127.0.0.1:{address[1]}{path}"
    async with _connected(connection, authority, url):
        console.print(f"Listening at [bold]{url}[/bold], connected to project {connection.project_id}.")
        console.print("Buy something in the test store and watch it arrive. Ctrl-C ends it.", style="dim")
        await stop.wait()
    server.close()


@contextlib.asynccontextmanager
async def _connected(connection: Connection, authority: bytes, url: str) -> AsyncIterator[None]:
    """A webhook of the demo project that lives as long as this receiver."""
    webhooks = f"{connection.base_url}/v2/projects/{connection.project_id}/integrations/webhooks"
    builder = ClientBuilder().add_root_certificate_pem(authority).error_for_status(True)
    async with builder.default_headers({"authorization": f"Bearer {connection.api_key}"}).build() as http:
        header = f"Bearer {secrets.token_urlsafe(18)}"
        new = {"name": NAME, "url": url, "authorization_header": header}
        made = await (await http.post(webhooks).body_json(new).build().send()).json()
        try:
            yield
        finally:
            # The service may be gone already; then there is nothing to take down.
            with contextlib.suppress(Exception):
                await http.delete(f"{webhooks}/{made['id']}").build().send()
