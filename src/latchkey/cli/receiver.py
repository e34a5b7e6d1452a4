"""`latchkey receiver`: shows webhooks as they arrive, and can forward them to an app on this machine.

It creates a webhook in the demo project of a running `latchkey up`, and deletes it when it stops.
"""

import asyncio
import contextlib
import secrets
import signal
import time
from collections.abc import AsyncIterator
from http.client import responses
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer
import uvloop
from msgspec import Struct, convert
from rich.console import Console
from rich.markup import escape

from latchkey.cli.command import flag, option
from latchkey.cli.data_folder import Connection, DataFolder, read_json
from latchkey.cli.service_client import client_of_up
from latchkey.domain.events.customer_event import Dialect
from latchkey.domain.refusal import Refusal
from latchkey.http_client import Closing, HttpClient, HttpError
from latchkey.runtime.bridge_script import is_this_machine
from latchkey.subjects.webhooks.delivery.sending import resolver
from latchkey.subjects.webhooks.receiver import ReceivedWebhook, Receiver, listen, tls

# A little less than the 60 seconds that the service waits, so that it gets our 502 with the reason.
PATIENCE_MS = 55_000
# Hop-by-hop headers, which are not forwarded. The client sets its own Host and Content-Length.
_OF_THE_CONNECTION = {
    "connection", "content-length", "host", "keep-alive", "proxy-authenticate", "proxy-authorization",
    "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip
_WITHOUT_BODY = {204, 304}


class ReceiverReply(Struct, frozen=True):
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    took_ms: int
    # Why the app did not respond; the service then gets a 502 with this text.
    error: str | None = None

    def written(self) -> bytes:
        """As HTTP/1.1."""
        lines = [
            f"HTTP/1.1 {self.status} {responses.get(self.status, '')}",
            *(f"{name}: {value}" for name, value in self.headers),
        ]
        if self.status in _WITHOUT_BODY:
            return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
        lines += [f"content-length: {len(self.body)}", "", ""]
        return "\r\n".join(lines).encode("latin-1", "replace") + self.body


def check(url: str) -> str:
    """The address, if it is on this machine: secrets must not leave it over plain HTTP."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise typer.BadParameter(f"{url} is not a URL.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise typer.BadParameter(f"{url} is not an address such as http://localhost:3000/hook.")
    if parts.scheme == "http" and not is_this_machine(host):
        raise typer.BadParameter(
            f"{url} is not on this machine. Webhooks carry secrets, so plain http:// works only to "
            "localhost. For another machine, create a webhook with its https:// address."
        )
    return url


class Forwarder(Closing):
    def __init__(self, url: str, patience_ms: int = PATIENCE_MS) -> None:
        self._url = check(url)
        self._patience_ms = patience_ms
        # The response is returned as the app sent it: not decompressed, redirects not followed, no proxy in between.
        self._http = HttpClient(timeout=patience_ms / 1000, https_only=False, use_proxy=False, decompress=False)

    async def close(self) -> None:
        await self._http.close()

    async def pass_on(self, arrival: ReceivedWebhook) -> ReceiverReply:
        headers = {name: value for name, value in arrival.headers.items() if name not in _OF_THE_CONNECTION}
        began = time.monotonic()
        try:
            response = await self._http.ask("POST", self._url, headers=headers, body=arrival.body)
        except (HttpError, TimeoutError) as error:
            return self._unanswered(error, _since(began))
        back = tuple((name, value) for name, value in response.headers() if name not in _OF_THE_CONNECTION)
        return ReceiverReply(response.status, back, response.body, _since(began))

    def _unanswered(self, error: Exception, took_ms: int) -> ReceiverReply:
        reason = resolver.in_words(error, took_ms, self._patience_ms).replace("the receiver", "the app")
        words = f"{self._url}: {reason}"
        return ReceiverReply(
            502, (("content-type", "text/plain; charset=utf-8"),), f"{words}\n".encode(), took_ms, words
        )


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


NAME = "latchkey receiver"
# How many characters of a response are shown.
SHOWN = 300
_COLOURS = {"EXPIRATION": "red", "REFUND": "red", "BILLING_ISSUE": "yellow", "CANCELLATION": "yellow"}


def receiver(
    data: Path = option("The data folder of a running `latchkey up`.", default=Path(".latchkey")),
    port: int = option("The port to listen on; 0 chooses a free one.", default=0, min=0, max=65535),
    forward_to: str | None = option(
        "Pass every webhook on to your app on this machine, such as http://localhost:3000/hook, "
        "and return its reply to the service.",
        callback=lambda url: check(url) if url is not None else None,
    ),
    authorization: str | None = option(
        "The Authorization header that the service sends. A random one is chosen unless given."
    ),
    path: str = option("How to answer, to try failures: /, /status/503, /flaky/2, /slow/250, /hang, ...", default="/"),
    dialect: Dialect = option(
        "The form of the bodies; revenuecat for an app written for that service.", default=Dialect.LATCHKEY
    ),
    bodies: bool = flag("Show the whole body of each event.", "--bodies"),
) -> None:
    """Receive webhooks from a running `latchkey up`, show them, and pass them on to your app.

    It listens with HTTPS. With --forward-to it passes each webhook on over plain HTTP."""
    console = Console(highlight=False)
    folder = DataFolder(data)
    if forward_to is not None and path != "/":
        raise typer.BadParameter("cannot be used together with --forward-to: your app answers.", param_hint="--path")
    found = read_json(folder.connection)
    if not found:
        console.print(
            f"[bold red]Error:[/bold red] no `latchkey up` runs in {data}. Start it first: latchkey up --data {data}",
            soft_wrap=True,
        )
        raise typer.Exit(1)
    connection = convert(found, Connection)
    webhook = {
        "name": NAME,
        "authorization_header": authorization or f"Bearer {secrets.token_urlsafe(18)}",
        "dialect": dialect.value,
    }
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(Screen(console, bodies), folder, connection, webhook, port, path, forward_to))


class Screen(Struct, frozen=True):
    """The output. Everything external is shown as plain text."""

    console: Console
    bodies: bool

    def arrived(self, arrival: ReceivedWebhook, did: str) -> None:
        self._line(arrival, f"answered {did.removeprefix('status ')}")

    def forwarded(self, arrival: ReceivedWebhook, reply: ReceiverReply) -> None:
        if reply.error is not None:
            self._line(arrival, f"[red]not forwarded, answered 502[/]: {plain(reply.error)}")
            return
        colour = "green" if reply.status == 200 else "red"
        words = f"your app answered [{colour}]{reply.status}[/] in {reply.took_ms} ms"
        self._line(arrival, f"{words}: {shown}" if (shown := plain(_text(reply.body))) else words)

    def _line(self, arrival: ReceivedWebhook, words: str) -> None:
        event = arrival.event
        colour = _COLOURS.get(event.type, "green")
        who = f"{plain(event.app_user_id):<24} #{event.sequence:<4}"
        self.console.print(f"[{colour}]{plain(event.type):<30}[/] {who} {words}", soft_wrap=True)
        if self.bodies:
            self.console.print_json(_text(arrival.body))


def plain(text: str) -> str:
    """One line without control characters, shortened if long, and with Rich markup escaped."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return escape(line if len(line) <= SHOWN else f"{line[:SHOWN]}…")


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")


async def _run(
    screen: Screen,
    folder: DataFolder,
    connection: Connection,
    webhook: dict[str, str],
    port: int,
    path: str,
    forward_to: str | None,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        receiving = Receiver(screen.arrived)
        if forward_to is not None:
            forwarder = await stack.enter_async_context(Forwarder(forward_to))

            async def answering(arrival: ReceivedWebhook) -> bytes:
                reply = await forwarder.pass_on(arrival)
                screen.forwarded(arrival, reply)
                return reply.written()

            receiving.answering = answering
        server = await listen(receiving, tls(folder.tls / "server.pem", folder.tls / "server.key"), port=port)
        stack.callback(server.close)
        address: Any = server.sockets[0].getsockname()  # type: ignore[attr-defined]  # asyncio's own Server has it
        url = f"https://127.0.0.1:{address[1]}{path}"
        made = await stack.enter_async_context(_connected(connection, {**webhook, "url": url}))
        say = screen.console.print
        say(f"Listening at [bold]{url}[/bold], connected to project {connection.project_id}.", soft_wrap=True)
        if forward_to is not None:
            say(
                f"Forwarding to [bold]{escape(forward_to)}[/bold]. Your app can check each webhook with", soft_wrap=True
            )
            say(f"  Authorization   {escape(webhook['authorization_header'])}", soft_wrap=True)
            say(f"  signing secret  {made['signing_secret']}", soft_wrap=True)
        say("Buy something in the test store and watch it arrive. Press Ctrl-C to stop.", style="dim")
        await stop.wait()


@contextlib.asynccontextmanager
async def _connected(connection: Connection, new: dict[str, str]) -> AsyncIterator[dict[str, Any]]:
    """A webhook of the demo project, deleted when this receiver stops."""
    webhooks = f"/v2/projects/{connection.project_id}/integrations/webhooks"
    async with client_of_up(connection) as service:
        made = await service.ask("POST", webhooks, new)
        try:
            yield made
        finally:
            # The service may have stopped already; then there is nothing to delete.
            with contextlib.suppress(Refusal):
                await service.ask("DELETE", f"{webhooks}/{made['id']}")
