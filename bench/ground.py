"""The environment of the benchmarks: a database, certificates, and real service processes."""

import asyncio
import ipaddress
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.migrate import migrate
from latchkey.database.pool import Database, connect
from latchkey.now import real_now
from latchkey.process.local_ca.authority import LocalCertificates, ensure_certificates
from latchkey.process.supervision.listeners import bind
from latchkey.process.supervision.supervisor import Supervisor, plan
from latchkey.process.up.command import wait_until_answering
from latchkey.settings import Settings
from latchkey.subjects.api_keys.usecases import create_secret_key
from latchkey.subjects.demo.usecases.project import PROJECT_ID, ensure_demo

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
# Never reached, but the limit is still checked on every request.
NO_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class Service:
    """The processes of a service: the address of its api, if it has one, and the process ids by name."""

    url: str
    pids: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Ground:
    folder: Path
    server: EmbeddedServer
    certificates: LocalCertificates
    database: Database
    key: str
    # Of the demo's app in the test store.
    public_key: str
    project_id: str = PROJECT_ID
    secret: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    # Of store emulators.
    store_hosts: tuple[str, ...] = ()

    def settings(self, port: int, database_url: str = "") -> Settings:
        return Settings(
            database_url=database_url or self.server.url(),
            host="127.0.0.1",
            port=port,
            tls_cert=self.certificates.cert,
            tls_key=self.certificates.key,
            secret_key=self.secret,
            drain_seconds=2,
            log_format="json",
            log_level="warning",
            store_allow_hosts=self.store_hosts,
            webhook_allow_networks=LOOPBACK,
            webhook_extra_ca=self.certificates.authority,
        )

    @asynccontextmanager
    async def service(self, *roles: str) -> AsyncIterator[str]:
        """Real processes with these roles; yields the address of the api, if it is one of them."""
        async with self.processes(*roles) as service:
            yield service.url

    @asynccontextmanager
    async def processes(self, *roles: str, database_url: str = "", workers: int = 1) -> AsyncIterator[Service]:
        """Real processes with these roles, as `latchkey serve` starts them; so many for the api."""
        listening = bind("127.0.0.1", 0, workers) if "api" in roles else []
        port = listening[0].getsockname()[1] if listening else 0
        with (self.folder / "service.log").open("ab") as log:
            supervisor = Supervisor(plan(roles, listening), output=log)
            await supervisor.spawn()
            try:
                supervisor.begin(self.settings(port, database_url))
                await supervisor.wait_until_ready()
                if listening:
                    await wait_until_answering(f"https://127.0.0.1:{port}", self.certificates.authority.read_bytes())
                pids = {child.name: child.process.pid for child in supervisor.children if child.process}
                yield Service(f"https://127.0.0.1:{port}", pids)
            finally:
                await supervisor.stop()

    @asynccontextmanager
    async def ceiling(self, name: str) -> AsyncIterator[str]:
        """The bare handler of this name from `bench.ceilings`, as its own process, with the same server and TLS."""
        words = [name, self.server.url(), str(self.certificates.cert), str(self.certificates.key)]
        async with self.listening("bench.ceilings", *words) as (url, _):
            yield url

    @asynccontextmanager
    async def listening(
        self, module: str, *words: str, environment: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, int]]:
        """A module as a process that listens on our socket, whose descriptor is its first argument; yields its address
        and process id."""
        listening = bind("127.0.0.1", 0, 1)[0]
        listening.set_inheritable(True)
        port = listening.getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, str(listening.fileno()), *words),
            pass_fds=[listening.fileno()],
            env={**os.environ, **(environment or {})},
        )
        try:
            await _until_accepting(port)
            yield f"https://127.0.0.1:{port}", process.pid
        finally:
            process.terminate()
            await process.wait()
            listening.close()


@asynccontextmanager
async def ground() -> AsyncIterator[Ground]:
    """A durable PostgreSQL (fsync on) with the demo's catalog, deleted afterwards. With KEPT=folder it is kept there,
    for the next time."""
    kept = os.environ.get("KEPT")
    folder = Path(kept or tempfile.mkdtemp(prefix="latchkey-bench-"))
    server = EmbeddedServer(folder)
    server.claim()
    try:
        await asyncio.to_thread(server.start)
        certificates = ensure_certificates(folder / "tls", [ipaddress.ip_address("127.0.0.1")], real_now())
        connection = await connect(server.url())
        await migrate(connection)
        await connection.close()
        async with Database(server.url(), max_size=4) as database:
            demo = await ensure_demo(database, real_now(), secret_key=None, public_key=None)
            key = await create_secret_key(database, PROJECT_ID, "bench", real_now(), rate_limit=NO_LIMIT)
            yield Ground(folder, server, certificates, database, key.plaintext, demo.public_key)
    finally:
        await asyncio.to_thread(server.stop)
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


async def _until_accepting(port: int) -> None:
    for _ in range(100):
        await asyncio.sleep(0.1)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                # We bound the socket, so this only means that it will be served; the first request waits until it is.
                return
