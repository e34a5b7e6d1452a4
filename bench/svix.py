"""A Svix server that the user has, with its queue in Redis and the benchmark's receiver as its only endpoint."""

import asyncio
import os
import secrets
import socket
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psutil  # type: ignore[import-untyped]  # its stubs are a separate package

from bench.buying import POSTGRESQL, SINK, System, ask
from bench.ground import Ground
from bench.load import client
from bench.phones import Phones
from latchkey.database.embedded.postgres import tail
from latchkey.database.pool import Database

SVIX = "Svix"
REDIS_URL = "redis://127.0.0.1:6379"
START_PATIENCE = 60
RECORDED = "select count(*) from messageattempt where status = 0 and endp_id = '{}'"


@dataclass(frozen=True, slots=True)
class Installed:
    """Where the user has Svix. Without the address of a database it gets one in the benchmark's PostgreSQL."""

    binary: Path
    database_url: str = ""
    redis_url: str = REDIS_URL


@asynccontextmanager
async def svix(ground: Ground, installed: Installed, other: System, queue: str = "redis") -> AsyncIterator[System]:
    """Svix with one application, which delivers to the receiver of the other system. Its URL is the one to which
    messages are posted. Its queue is in Redis or in memory."""
    redis = _serving(installed.redis_url, 6379, "redis-server", "--svix-redis")
    database_url, postgres = await _database(ground, installed)
    async with AsyncExitStack() as stack:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        authority = ground.certificates.authority
        environment = {
            # By default it takes 100, and the benchmark's PostgreSQL has no more for all who connect.
            "SVIX_DB_POOL_MAX_SIZE": "80",
            **os.environ,
            "SVIX_LISTEN_ADDRESS": f"127.0.0.1:{port}",
            "SVIX_JWT_SECRET": secrets.token_hex(16),
            "SVIX_DB_DSN": database_url,
            "SVIX_REDIS_DSN": installed.redis_url,
            "SVIX_QUEUE_TYPE": queue,
            # A queue of its own: nothing of an earlier run is in it.
            "SVIX_QUEUE_PREFIX": f"bench-{secrets.token_hex(4)}",
            "SVIX_WHITELIST_SUBNETS": "[127.0.0.0/8]",
            # The receiver logs the header `webhook-id`.
            "SVIX_WHITELABEL_HEADERS": "true",
            "SSL_CERT_FILE": str(authority),
        }
        token = await _token(installed.binary, environment, ground.folder)
        running = partial(_running, installed.binary, environment, ground.folder, port)
        process = await stack.enter_async_context(running())

        async def kill() -> None:
            nonlocal process
            process.kill()
            await process.wait()
            process = await stack.enter_async_context(running())

        http = await stack.enter_async_context(client(authority, token))
        url = f"http://127.0.0.1:{port}/api/v1"
        app = await ask(http.post(f"{url}/app/").body_json({"name": "bench"}))
        endpoint = await ask(http.post(f"{url}/app/{app['id']}/endpoint/").body_json({"url": other.target}))
        phones = await stack.enter_async_context(Phones(authority, (token, token)))
        database = await stack.enter_async_context(Database(database_url, max_size=4))
        pids = {SVIX: [process.pid], POSTGRESQL: [postgres], "Redis": [redis], SINK: other.pids[SINK]}
        system = System(SVIX, f"{url}/app/{app['id']}/msg/", http, other.receipts, database, pids, phones)
        yield replace(system, arrivals=other.arrivals, recorded=RECORDED.format(endpoint["id"]), kill=kill)


async def _database(ground: Ground, installed: Installed) -> tuple[str, int]:
    """The address for Svix, and the process of PostgreSQL."""
    if installed.database_url:
        return installed.database_url, _serving(installed.database_url, 5432, "postgres", "--svix-db")
    await ground.database.pool.execute("drop database if exists svix")
    await ground.database.pool.execute("create database svix")
    assert ground.server.pid is not None
    # An address with a user and without a host is none for Svix.
    return ground.server.url("svix").replace("postgres@/svix?", "/svix?user=postgres&"), ground.server.pid


def _serving(url: str, usual_port: int, program: str, option: str) -> int:
    """The process that listens at this address of this machine."""
    host, port = urlsplit(url).hostname or "127.0.0.1", urlsplit(url).port or usual_port
    if not _listens(port, host):
        raise SystemExit(f"{program} does not answer at {host}:{port}. Start it, or give its address: {option} URL")
    for connection in psutil.net_connections("tcp"):
        listening = connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        if listening and connection.pid and program in psutil.Process(connection.pid).name():
            return int(connection.pid)
    raise SystemExit(
        f"The process of {program} at {host}:{port} cannot be seen. Its CPU is counted: it has to run on this machine, "
        "outside a container, and as the user who runs the benchmark, unless that is root."
    )


def _listens(port: int, host: str = "127.0.0.1") -> bool:
    try:
        socket.create_connection((host, port), 2).close()
    except OSError:
        return False
    return True


async def _token(binary: Path, environment: Mapping[str, str], folder: Path) -> str:
    """A token for the API, signed with the secret of this run."""
    process = await asyncio.create_subprocess_exec(
        *(str(binary), "jwt", "generate"), env=environment, cwd=folder, stdout=PIPE, stderr=STDOUT
    )
    printed = (await process.communicate())[0].decode()
    if "Token (Bearer): " not in printed:
        raise SystemExit(f"`{binary} jwt generate` gave no token:\n{printed}")
    return printed.partition("Token (Bearer): ")[2].split()[0]


@asynccontextmanager
async def _running(binary: Path, environment: Mapping[str, str], folder: Path, port: int) -> AsyncIterator[Process]:
    """The server, once it listens. There is no configuration file in this folder."""
    log = folder / "svix.log"
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *(str(binary), "--run-migrations"), env=environment, cwd=folder, stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + START_PATIENCE
        while not _listens(port):
            if process.returncode is not None or time.monotonic() > deadline:
                raise SystemExit(f"{binary} did not start. The end of its log:\n{tail(log)}")
            await asyncio.sleep(0.1)
        yield process
    finally:
        if process.returncode is None:
            # If it is asked to end, it first waits for its queue, for up to 20 s.
            process.kill()
        await process.wait()
