"""`latchkey push`: sends a push to one user, runs a sandbox push provider, and lists what was sent through it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import typer
from msgspec import to_builtins
from rich.console import Console
from rich.markup import escape

from latchkey.cli import output
from latchkey.cli.command import argument, option
from latchkey.cli.data_folder import PushConnection, read_json, write_json
from latchkey.cli.output import JsonOption, shown
from latchkey.cli.target_database import DATA
from latchkey.http_client import HttpClient, HttpError
from latchkey.now import real_now
from latchkey.process.local_ca.authority import LocalCertificates, ensure_certificates
from latchkey.process.supervision.listeners import bind_wished
from latchkey.process.supervision.stop_signal import StopSignal
from latchkey.push.push_notification import PushError, PushNotification, PushNotSentError, PushResult
from latchkey.push.sandbox.sandbox_app import Sandbox
from latchkey.push.sandbox.sandbox_database import SandboxDatabase
from latchkey.server import served
from latchkey.settings import Problem, SettingsRefusedError
from latchkey.settings import Settings as ServerSettings

if TYPE_CHECKING:
    from latchkey.consumer.consumer_settings import Settings

app = typer.Typer(no_args_is_help=True)


@app.command()
def sandbox(
    data: Path = option("The folder for the provider's data.", default=Path(".latchkey-push")),
    port: int = option("The port to listen on; 0 chooses a free one.", default=0, min=0, max=65535),
) -> None:
    """Run a sandbox push provider on this machine. `latchkey up` already includes one."""
    folder = data.absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    asyncio.run(_run(folder, port))


@contextlib.asynccontextmanager
async def push_sandbox(
    folder: Path, certificates: LocalCertificates, *, host: str, shown_host: str, port: int = 0, first_port: int = 0
) -> AsyncIterator[PushConnection]:
    """Over TLS, with its data in a folder: push.sqlite has devices and what was sent, push.json its app id, its key and
    its port, so that the next start has the same ones. On `port` if given, else on the last port, else on `first_port`;
    if that is taken, on any free port."""
    kept = _remembered(folder)
    listening = bind_wished(host, [port, kept["port"], first_port])
    kept["port"] = listening.getsockname()[1]
    write_json(folder / "push.json", kept)
    app_id, key = kept["app_id"], kept["rest_api_key"]
    sandbox = Sandbox(app_id, key, SandboxDatabase(str(folder / "push.sqlite")), real_now)
    tls = ServerSettings(tls_cert=certificates.cert, tls_key=certificates.key)
    with contextlib.closing(listening), contextlib.closing(sandbox.database):
        async with served(sandbox.application, listening, tls):
            with contextlib.closing(sandbox.streams):
                yield PushConnection(base_url=f"https://{shown_host}:{kept['port']}", app_id=app_id, rest_api_key=key)


def _remembered(folder: Path) -> dict[str, Any]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = {"app_id": str(uuid.uuid4()), "rest_api_key": f"os_sandbox_{secrets.token_urlsafe(24)}", "port": 0}
    return {**new, **read_json(folder / "push.json")}


async def _run(folder: Path, port: int) -> None:
    signal = StopSignal()
    certificates = ensure_certificates(folder / "tls", [], real_now())
    async with push_sandbox(folder, certificates, host="127.0.0.1", shown_host="127.0.0.1", port=port) as connection:
        found = folder / "connection.json"
        write_json(found, {"ca_cert": str(certificates.authority), "push": connection})
        table = output.titled("The push sandbox is up")
        table.add_row("Push API", connection.base_url)
        table.add_row("App id", connection.app_id)
        table.add_row("Certificate to trust", str(certificates.authority))
        table.add_row("For scripts", f"{found}  (with the REST API key, mode 600)")
        console = Console(highlight=False)
        console.print(table, soft_wrap=True)
        console.print("Press Ctrl-C to stop.", style="dim")
        await signal.asked.wait()


@app.command()
def sent(
    data: Path = option("The data folder of a running `latchkey up` or `latchkey push sandbox`.", default=DATA),
    limit: int = option("How many to show at most.", default=20, min=1, max=300),
    as_json: JsonOption = False,
) -> None:
    """List what was sent through the sandbox provider, newest first."""
    connection, authority = reach_push(data)
    found = asyncio.run(_fetch(connection, authority, limit))
    if as_json:
        output.write_list(found, more=len(found) == limit)
        return
    rows = [
        (
            *(shown(one["queued_at"] * 1000), one["headings"].get("en", ""), one["contents"].get("en", "")),
            *(str(one["successful"]), str(one["received"])),
        )
        for one in found
    ]
    output.show_list(rows, ("sent", "heading", "content", "to", "received"), "")


@app.command()
def send(
    user: str = argument("The app user id of the recipient."),
    content: str = argument("The text of the notification."),
    heading: str = option("The title of the notification.", default=""),
    language: str = option("The language of text and title. Providers require en.", default="en"),
    key: str | None = option("An idempotency key: a notification with the same key is sent only once."),
    as_json: JsonOption = False,
) -> None:
    """Send a push to all devices of one user. Uses the consumer's settings (LATCHKEY_CONSUMER_…)."""
    settings = _consumer_settings()
    try:
        words = PushNotification({language: content}, {language: heading} if heading else {})
    except ValueError as error:
        raise PushError(str(error)) from None
    sent = asyncio.run(_send(settings, user, words, key))
    if as_json:
        output.write({"sent": sent.anybody, **to_builtins(sent)})
        raise typer.Exit(output.DONE if sent.anybody else output.FAILED)
    console = Console(highlight=False)
    if sent.anybody:
        console.print(f"[green]✓[/green] Sent ({', '.join(sent.notification_ids)})", soft_wrap=True)
    else:
        console.print(f"Not sent: {escape(user)} has no device that accepts notifications.", soft_wrap=True)
    if sent.invalid_player_ids:
        console.print(f"{len(sent.invalid_player_ids)} devices that the push provider does not know were removed.")
    if not sent.anybody:
        raise typer.Exit(1)


def _consumer_settings() -> Settings:
    # The consumer's libraries take a while to load, and the other commands do not need them.
    from latchkey.cli.consumer import read_settings
    from latchkey.consumer.consumer_settings import variable

    settings = read_settings(os.environ, alone=False)
    if not settings.pushes:
        missing = "is missing, and with it push_app_id and push_rest_api_key."
        raise SettingsRefusedError([Problem(variable("push_api_url"), missing, "")])
    return settings


async def _send(settings: Settings, user: str, words: PushNotification, key: str | None) -> PushResult:
    from latchkey.consumer.pushes import Pushes
    from latchkey.consumer.storage.consumer_storage import ConsumerStorage
    from latchkey.consumer.storage.schema import migrate

    store = ConsumerStorage(settings.database_url)
    await migrate(store.database)
    pushes = Pushes(store, settings, real_now)
    try:
        return await pushes.send(user, words, key=key)
    finally:
        await pushes.close()
        await store.close()


def reach_push(data: Path) -> tuple[PushConnection, bytes]:
    """The sandbox of a running `latchkey up` or `latchkey push sandbox`, and the authority to trust."""
    kept = read_json(data / "connection.json")
    try:
        return msgspec.convert(kept["push"], PushConnection), Path(kept["ca_cert"]).read_bytes()
    except (KeyError, msgspec.ValidationError, OSError):
        raise PushNotSentError(
            f"{data} is not the folder of a running `latchkey up` or `latchkey push sandbox`; name it with --data."
        ) from None


async def _fetch(connection: PushConnection, authority: bytes, limit: int) -> list[dict[str, Any]]:
    url = f"{connection.base_url}/api/v1/notifications?limit={limit}"
    async with HttpClient(extra_ca=authority) as http:
        try:
            response = await http.ask("GET", url, authorization=f"Basic {connection.rest_api_key}")
        except HttpError as error:
            raise PushNotSentError(f"The push sandbox at {connection.base_url} does not answer.") from error
    if response.status != 200:
        raise PushError(f"The push sandbox at {connection.base_url} answered {response.status}.")
    found: list[dict[str, Any]] = msgspec.json.decode(response.body)["notifications"]
    return found
