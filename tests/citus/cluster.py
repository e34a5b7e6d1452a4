"""A Citus cluster for tests and benchmarks: one coordinator and two workers on this machine, or one given by its URL.

Citus is in no package registry. Name the programs of a PostgreSQL that has it (LATCHKEY_TEST_CITUS_BIN is the folder
with `initdb` and `postgres`), or a running cluster (LATCHKEY_TEST_CITUS_URL is a database of its coordinator, with a
user who may create databases and extensions on every node). A cluster that is started here is gone after the run.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from latchkey.database.embedded.system_user import server_user
from tests.cli.running import free_port
from tests.connections import connected
from tests.patience import wait_until

BIN, URL = "LATCHKEY_TEST_CITUS_BIN", "LATCHKEY_TEST_CITUS_URL"
HOW_TO_RUN = (
    f"Set {BIN} to the bin folder of a PostgreSQL 16 to 18 that has Citus, or {URL} to a database of a coordinator."
)
WORKERS = 2
HOST = "127.0.0.1"
USER = "postgres"

SETTINGS: Mapping[str, str] = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "shared_preload_libraries": "citus",
    # Moving a shard copies it by logical replication.
    "wal_level": "logical",
    "max_connections": "300",
    "max_prepared_transactions": "300",
    "max_worker_processes": "32",
    "shared_buffers": "64MB",
    "io_method": "sync",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "citus.shard_count": "8",
    "citus.node_conninfo": "sslmode=prefer",
    "citus.local_hostname": HOST,
    # Nothing is reported to anybody.
    "citus.enable_statistics_collection": "off",
}
# Nothing here survives the run, so nothing needs to reach the disk.
UNSAFE_BUT_FAST = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}

_numbers = itertools.count(1)
# Loaded here: between fork and exec nothing may be imported.
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1

# A node knows itself by this id, which it has from its template.
_ITSELF = "update pg_dist_node_metadata set metadata = jsonb_build_object('server_id', gen_random_uuid())"


@dataclass(frozen=True, slots=True)
class Node:
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """Addresses of the nodes. `coordinator` is the URL of any database there."""

    coordinator: str
    nodes: tuple[Node, ...]
    # By port, if they were started here.
    servers: Mapping[int, Server] = field(default_factory=dict)

    def url(self, database: str, node: Node | None = None) -> str:
        """The address of a database, at the coordinator or at one of the workers."""
        parts = urlsplit(self.coordinator)
        place = parts.netloc
        if node is not None:
            user = f"{place.rpartition('@')[0]}@" if "@" in place else ""
            place = f"{user}{node.host}:{node.port}"
        return urlunsplit(parts._replace(netloc=place, path=f"/{database}"))

    @property
    def workers(self) -> tuple[Node, ...]:
        return self.nodes[1:]

    @asynccontextmanager
    async def database(self) -> AsyncIterator[str]:
        """The coordinator's address of a new database on all nodes, with the extension and without tables."""
        name = f"latchkey_test_{os.getpid()}_{next(_numbers)}"
        for node in self.nodes:
            await self._run(self.coordinator, node, f"create database {name}")
        try:
            for node in self.nodes:
                await self._run(self.url(name), node, "create extension if not exists citus", _ITSELF)
            first = self.nodes[0]
            joining = [f"select citus_set_coordinator_host('{first.host}', {first.port})"]
            joining += [f"select citus_add_node('{one.host}', {one.port})" for one in self.workers]
            await self._run(self.url(name), None, *joining)
            yield self.url(name)
        finally:
            for node in reversed(self.nodes):
                await self._run(self.coordinator, node, f"drop database if exists {name} with (force)")

    async def _run(self, url: str, node: Node | None, *statements: str) -> None:
        database = urlsplit(url).path.removeprefix("/")
        async with connected(asyncpg.connect(self.url(database, node))) as connection:
            for statement in statements:
                await connection.execute(statement)


def is_named() -> bool:
    """Whether the environment names a cluster, or programs to start one with."""
    return bool(os.environ.get(BIN) or os.environ.get(URL))


@asynccontextmanager
async def cluster(folder: Path, settings: Mapping[str, str] | None = None) -> AsyncIterator[Cluster]:
    """The cluster that the environment names. One that is started here has its files in `folder`."""
    if url := os.environ.get(URL):
        yield await given(url)
        return
    programs = Path(os.environ[BIN])
    with ExitStack() as stack:
        servers = [
            stack.enter_context(running(programs, folder / name, {**UNSAFE_BUT_FAST, **(settings or {})}))
            for name in ("coordinator", *(f"worker{number}" for number in range(1, WORKERS + 1)))
        ]
        nodes = tuple(Node(HOST, server.port) for server in servers)
        coordinator = f"postgresql://{USER}@{HOST}:{servers[0].port}/postgres"
        yield Cluster(coordinator, nodes, {server.port: server for server in servers})


async def given(url: str) -> Cluster:
    """The nodes of a running cluster, as its coordinator knows them."""
    async with connected(asyncpg.connect(url)) as connection:
        rows = await connection.fetch(
            "select nodename, nodeport from pg_dist_node where isactive and noderole = 'primary' order by groupid"
        )
    nodes = tuple(Node(row["nodename"], row["nodeport"]) for row in rows)
    assert len(nodes) > WORKERS, (
        f"{URL} names a cluster of {len(nodes)} nodes; a coordinator and two workers are needed"
    )
    return Cluster(url, nodes)


class Server:
    """One server with Citus, in a folder of its own. It can be stopped and started again, at the same port."""

    def __init__(self, programs: Path, folder: Path, port: int) -> None:
        self._programs = programs
        self._folder = folder
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        folder, user = self._folder, server_user()
        # A server that was killed has left its file behind.
        (folder / "postmaster.pid").unlink(missing_ok=True)
        with folder.with_suffix(".log").open("ab") as log:
            process = self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", folder],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent,
                cwd=folder,
                **user.switch,
            )
        wait_until(lambda: ready(folder) or process.poll() is not None, f"{folder} did not start")
        assert process.poll() is None, folder.with_suffix(".log").read_text(errors="replace")

    def stop(self, *numbers: signal.Signals) -> None:
        """Ends it with the first of these signals, and with the next if it has not ended after 30 seconds."""
        process, self._process = self._process, None
        if process is None:
            return
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
                break

    def crash(self) -> None:
        """Ends it at once, without writing anything down: the next start recovers from the log."""
        self.stop(signal.SIGQUIT, signal.SIGKILL)


@contextmanager
def running(programs: Path, folder: Path, settings: Mapping[str, str]) -> Iterator[Server]:
    """One server with Citus, in a new folder."""
    user = server_user()
    user.open_way_to(programs)
    folder.parent.mkdir(parents=True, exist_ok=True)
    user.open_way_to(folder)
    shutil.copytree(template(programs), folder, symlinks=True)
    for path in (folder, *folder.rglob("*")):
        user.own(path)
    server = Server(programs, folder, free_port())
    lines = [f"{name} = '{value}'" for name, value in {**SETTINGS, **settings, "port": str(server.port)}.items()]
    (folder / "postgresql.conf").write_text("\n".join(lines) + "\n")
    # For programs of this machine, and only until the tests end.
    (folder / "pg_hba.conf").write_text("host all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n")
    try:
        server.start()
        yield server
    finally:
        server.stop(signal.SIGINT, signal.SIGQUIT, signal.SIGKILL)


def _end_with_parent() -> None:
    """A killed test run leaves no servers behind. Linux only; elsewhere they stay."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def ready(folder: Path) -> bool:
    """Whether the pid file says so, in its eighth line."""
    try:
        lines = (folder / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) > 7 and lines[7].strip() == "ready"


def template(programs: Path) -> Path:
    """The files of a new server, made once for each build and kept in the temporary folder: copying them takes a tenth
    of the time. Every database of such a server has the extension already."""
    program = (programs / "postgres").stat()
    built = f"{programs.resolve()} {program.st_mtime_ns} {program.st_size}"
    place = Path(tempfile.gettempdir()) / f"latchkey-citus-{hashlib.sha256(built.encode()).hexdigest()[:16]}"
    with place.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not place.exists():
            _make(programs, place)
    return place


def _make(programs: Path, place: Path) -> None:
    user = server_user()
    user.open_way_to(programs)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="latchkey-citus-new-") as made:
        user.own(Path(made))
        draft = Path(made) / "data"
        initdb: list[str | Path] = [
            programs / "initdb", "--pgdata", draft, "--username", USER, "--encoding", "UTF8", "--auth", "trust",
            "--locale", "C", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--no-instructions",
            "--no-sync",
        ]  # fmt: skip
        # By a server without other processes: Citus would start one of its own in this database, and nobody can copy a
        # database that somebody is connected to.
        extension: list[str | Path] = [
            programs / "postgres",
            "--single",
            "-D",
            draft,
            "-c",
            "shared_preload_libraries=citus",
        ]
        steps = ((initdb, ""), ([*extension, "template1"], "create extension citus;\n"))
        for command, fed in steps:
            done = subprocess.run(
                command,
                input=fed,
                capture_output=True,
                text=True,
                cwd=made,
                **user.switch,
            )
            assert done.returncode == 0, done.stderr
            # A server without other processes goes on after an error.
            assert "ERROR" not in done.stderr, done.stderr
        draft.rename(place)
