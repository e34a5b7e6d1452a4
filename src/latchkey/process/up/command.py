"""`latchkey up`: starts everything on this machine; nothing has to be installed or configured first."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import structlog
from msgspec import Struct
from rich.console import Console

from latchkey import logs
from latchkey.cli.command import option
from latchkey.cli.data_folder import Connection, DashboardConnection, DataFolder, PushConnection, read_json, write_json
from latchkey.cli.push import push_sandbox
from latchkey.database.embedded.data_files import open_log, shorten
from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.errors import StorageError
from latchkey.database.migrate import migrate, pending
from latchkey.database.pool import Database, connect
from latchkey.http_client import HttpClient, HttpError, causes_of
from latchkey.now import real_now
from latchkey.process.local_ca.authority import LocalCertificates, ensure_certificates, may_sign_for
from latchkey.process.supervision.listeners import CannotListenError, NotReadyError, bind, bind_metrics
from latchkey.process.supervision.start import Timings
from latchkey.process.supervision.stop_signal import StoppedError, StopSignal, stoppable
from latchkey.process.supervision.supervisor import HEALTHY_AFTER, START_PATIENCE, Supervisor, plan, restart_delay
from latchkey.process.up.announcement import announce
from latchkey.process.up.demo_consumer import DemoConsumer, adding_history
from latchkey.process.up.demo_stores import DemoStores
from latchkey.process.up.up_settings import UpSettings, settings_for_up
from latchkey.settings import ROLES, Settings
from latchkey.subjects.demo.usecases import project

log = structlog.get_logger()

# How often it is checked that the embedded PostgreSQL runs.
LOOK_SECONDS = 0.2


class Said(Protocol):
    """Tells the user what is being done. What is `brief` is shown only by the spinner of a terminal."""

    def __call__(self, words: str, *, brief: bool = False) -> None: ...


def up(
    # Our own message about a folder that cannot be read says whose it is.
    data: Path = option("The folder for all data.", default=Path(".latchkey"), readable=False),
    port: int | None = option("The port to listen on; 0 chooses a free one.", show_default="8443", min=0, max=65535),
    host: str | None = option("The IP address to listen on.", show_default="127.0.0.1"),
    workers: int | None = option(
        "How many processes answer requests.", show_default="one for two cores, at least two", min=0
    ),
    stores: bool = option(
        "Also run emulators of the App Store, Google Play and Stripe.", "--stores/--no-stores", default=True
    ),
    history: bool | None = option(
        "A made-up year of customers in the demo project.",
        "--history/--no-history",
        show_default="only in a new data folder",
    ),
) -> None:
    """Start everything on this machine to try Latchkey: PostgreSQL, the service, a consumer and a demo project."""
    # The supervisor's own log. The processes log to a file.
    logs.configure("info", "pretty")
    chosen = settings_for_up(os.environ, port=port, host=host, workers=workers, demo_history=history)
    addresses_of(chosen.given.host)
    console = Console(highlight=False)
    # Stopped before anything was started.
    with (
        contextlib.suppress(StoppedError),
        stoppable(),
        claimed(data, chosen, with_stores=stores, history=history) as parts,
    ):
        try:
            # Before there is a thread, such as that of the spinner.
            parts.supervisor.fork()
            parts.timings.done("code")
            show(console, parts, chosen)
        finally:
            # Those that `run` has not stopped, because it did not begin.
            parts.supervisor.kill()


def show(console: Console, parts: UpParts, chosen: UpSettings) -> None:
    with console.status("Starting") as status:
        up = False

        def said(words: str, *, brief: bool = False) -> None:
            status.update(words)
            # A spinner shows nothing without a terminal, and it ends when everything has started.
            if not brief and (up or not console.is_terminal):
                # Output to a full disk must not end the service.
                with contextlib.suppress(OSError):
                    console.print(f"{words} ...", soft_wrap=True)

        def started(connection: Connection) -> None:
            nonlocal up
            up = True
            status.stop()
            announce(console, parts.folder, parts.timings, connection, chosen)

        asyncio.run(run(parts, chosen, said, started))


class UpParts(Struct, frozen=True):
    folder: DataFolder
    server: EmbeddedServer
    listening: socket.socket
    consumer: DemoConsumer
    # None with --no-stores.
    stores: DemoStores | None
    supervisor: Supervisor
    timings: Timings
    # Asked for with --history. Otherwise only a new demo project gets one.
    asked_for_history: bool


@contextlib.contextmanager
def claimed(data: Path, chosen: UpSettings, *, with_stores: bool, history: bool | None = None) -> Iterator[UpParts]:
    """The folder and the ports, for as long as `up` runs. What another program has taken is reported here."""
    host, port = chosen.given.host, chosen.given.port
    folder = DataFolder(data)
    server = EmbeddedServer(folder.path, settings=chosen.database)
    server.claim()
    try:
        folder.prepare()
        listening = bind(host, port, chosen.api_processes)
        consumer = DemoConsumer(folder.consumer, host, bracketed(reachable(host)), first_port=port and port + 1)
        stores = DemoStores(folder.stores, first_port=port and port + 3) if with_stores else None
        with os.fdopen(open_log(folder.log), "wb") as log:
            metrics = bind_metrics(chosen.given.metrics_host, chosen.given.metrics_port)
            children = [*plan(ROLES, listening), consumer.child, *([stores.child] if stores is not None else [])]
            for child in children[1 : len(listening)]:
                # Nobody waits for them: the first process answers all requests until they are there.
                child.reserve = True
            supervisor = Supervisor(children, output=log, metrics=metrics)
            yield UpParts(folder, server, listening[0], consumer, stores, supervisor, Timings(), history is True)
    finally:
        server.stop()


async def run(parts: UpParts, chosen: UpSettings, said: Said, started: Callable[[Connection], None]) -> None:
    host, port = chosen.given.host, chosen.given.port
    signal = StopSignal()
    signal.hurry = parts.supervisor.kill
    try:
        certificates = ensure_certificates(parts.folder.tls, addresses_of(host), real_now())
        pushing = push_sandbox(
            parts.folder.push,
            certificates,
            host=host,
            shown_host=bracketed(reachable(host)),
            first_port=port and port + 2,
        )
        async with pushing as push:
            # The processes load their code while the database starts.
            await parts.supervisor.spawn()
            try:
                connection = await prepare(parts, chosen, certificates, push, signal, said)
                started(connection)
                if parts.stores is not None:
                    parts.stores.tell(connection)
                await parts.supervisor.begin_reserve()
                async with adding_history(parts.consumer, connection, said):
                    await keep_running(parts.server, signal, said, logs=(parts.folder.log, parts.server.log))
                    said("Stopping")
            finally:
                await parts.supervisor.stop()
    except StoppedError:
        pass
    finally:
        await asyncio.to_thread(parts.server.stop)


async def prepare(
    parts: UpParts,
    chosen: UpSettings,
    certificates: LocalCertificates,
    push: PushConnection,
    signal: StopSignal,
    said: Said,
) -> Connection:
    folder, stores = parts.folder, parts.stores
    said("Starting PostgreSQL")
    await asyncio.to_thread(parts.server.start, said)
    parts.timings.done("database")
    host, port = chosen.given.host, parts.listening.getsockname()[1]
    settings = chosen.settings(
        certificates,
        folder,
        stores,
        public_url=chosen.given.public_url or f"https://{bracketed(reachable(host))}:{port}",
        database_url=parts.server.url(),
        port=port,
        secret_key=folder.secret_key(),
    )
    connection = await signal.unless_asked(prepare_database(parts, settings, certificates, push, said))
    parts.timings.done("demo")
    write_json(folder.connection, connection)
    told = parts.consumer.settings(connection.base_url, connection.project_id, certificates, push)
    parts.consumer.child.settings = {**told, "demo_key": connection.api_key}
    said("Starting the service")
    parts.supervisor.begin(settings)
    await signal.unless_asked(parts.supervisor.wait_until_ready())
    await signal.unless_asked(wait_until_answering(connection.base_url, certificates.authority.read_bytes()))
    parts.timings.done("processes")
    return connection


async def wait_until_answering(url: str, authority: bytes) -> None:
    deadline, last = time.monotonic() + START_PATIENCE, "no answer"
    async with HttpClient(timeout=60, extra_ca=authority, use_proxy=False) as http:
        while time.monotonic() < deadline:
            try:
                last = str((await http.ask("GET", f"{url}/readyz")).status)
            except HttpError as error:
                last = (causes_of(error) or [type(error).__name__])[-1]
            if last == "200":
                return
            await asyncio.sleep(0.05)
    raise NotReadyError(f"/readyz did not say 200 within {START_PATIENCE:.0f} s (it said: {last}).")


async def prepare_database(
    parts: UpParts, settings: Settings, certificates: LocalCertificates, push: PushConnection, said: Said
) -> Connection:
    folder, public_keys = parts.folder, dict[str, str]()
    connection = await connect(settings.database_url, application_name="latchkey up")
    try:
        # No other process uses this database, so the after parts can run too.
        if waiting := await pending(connection, after=True):
            said(f"Running {len(waiting)} database {'migration' if len(waiting) == 1 else 'migrations'}")
        await migrate(connection, after=True, told=lambda migration: said(f"Migrating: {migration.label}", brief=True))
    finally:
        await connection.close()
    async with Database(settings.database_url, max_size=2, application_name="latchkey up") as database:
        kept = read_json(folder.demo)
        secret, public = kept.get("api_key"), kept.get("public_api_key")
        demo = await project.ensure_demo(database, real_now(), secret_key=secret, public_key=public)
        if parts.asked_for_history or (demo.new and settings.demo_history):
            await project.want_history(database, demo.project_id, real_now())
        password = await project.ensure_owner(database, real_now(), kept.get("dashboard_password"))
        await parts.consumer.connect(database, demo.project_id, settings)
        for store in project.STORE_APPS if parts.stores is not None else ():
            public_keys[store] = await project.ensure_store_app(
                database, real_now(), store, kept.get(f"{store}_api_key")
            )
    keys = {f"{store}_api_key": key for store, key in public_keys.items()}
    own = {"api_key": demo.secret_key, "public_api_key": demo.public_key, "dashboard_password": password}
    if (after := {**kept, **own, **keys}) != kept:
        write_json(folder.demo, after)
    base_url = f"https://{bracketed(reachable(settings.host))}:{settings.port}"
    return Connection(
        base_url=base_url,
        ca_cert=str(certificates.authority),
        project_id=demo.project_id,
        api_key=demo.secret_key,
        public_api_key=demo.public_key,
        database_url=settings.database_url,
        push=push,
        consumer=parts.consumer.connection,
        dashboard=DashboardConnection(url=f"{base_url}/dashboard", email=project.OWNER, password=password),
        stores=parts.stores.connections(public_keys) if parts.stores is not None else {},
    )


def addresses_of(host: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The addresses besides loopback that our certificate must contain."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise CannotListenError(f"{host} is not an IP address. Give one, such as 127.0.0.1, with --host.") from None
    if address.is_unspecified:
        return []
    if not may_sign_for(address):
        raise CannotListenError(
            f"`up` is for this machine and its private network; {host} is neither. "
            "Use `latchkey serve` with a real certificate."
        )
    return [address]


def reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound


def bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


async def keep_running(
    server: EmbeddedServer, signal: StopSignal, said: Callable[[str], None], logs: Sequence[Path] = ()
) -> None:
    """Keeps the embedded PostgreSQL running until `up` is stopped, like the supervisor does for the processes, and the
    logs short. The processes reconnect by themselves: the address stays the same.

    Never gives up: the cause (most likely a full disk) can be fixed while it retries.
    """
    crashes, began = 0, time.monotonic()
    while not await _asked(signal, LOOK_SECONDS):
        for log_file in logs:
            shorten(log_file)
        if not server.failed():
            continue
        crashes = 1 if time.monotonic() - began > HEALTHY_AFTER else crashes + 1
        said(f"PostgreSQL ended by itself; starting it again. Its log is {server.log}")
        try:
            await asyncio.to_thread(server.restart, said, signal.asked.is_set)
        except (StorageError, OSError) as error:
            delay = restart_delay(crashes)
            log.error("database not started", reason=_short(error), again_in_seconds=delay)
            await _asked(signal, delay)
        else:
            said("PostgreSQL is running again")
        began = time.monotonic()


async def _asked(signal: StopSignal, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(signal.asked.wait(), seconds)
    return signal.asked.is_set()


def _short(error: Exception) -> str:
    """The line of PostgreSQL's log that says why."""
    lines = str(error).splitlines() or [type(error).__name__]
    return next((line.partition("FATAL:")[2].strip() for line in reversed(lines) if "FATAL:" in line), lines[0])
