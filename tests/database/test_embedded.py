"""The embedded server with real processes: crashes, leftovers, and two owners."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import asyncpg
import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from latchkey.database.embedded.data_files import SOCKET_LIMIT, SOCKET_NAME
from latchkey.database.embedded.postgres import EmbeddedServer, processes_on
from latchkey.database.embedded.system_user import SystemUser, server_user
from latchkey.database.errors import EmbeddedServerError

pytestmark = pytest.mark.processes

OWNER = """
import sys, signal
from pathlib import Path
from latchkey.database.embedded.postgres import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]))
server.start()
print(server.url(), flush=True)
signal.pause()
"""


def start_owner(folder: Path) -> tuple[subprocess.Popen[str], str]:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, folder], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    url = owner.stdout.readline().strip()
    owner.stdout.close()
    assert url.startswith("postgresql://")
    return owner, url


@pytest.fixture
def server(short_folder: Path, request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(short_folder / f"own-{request.node.name[:30]}")
    yield server
    server.stop()


async def test_what_was_committed_survives_a_killed_owner_and_a_killed_server(server: EmbeddedServer) -> None:
    owner, url = start_owner(server.folder)
    connection = await asyncpg.connect(url)
    await connection.execute("create table kept (x int); insert into kept values (42)")
    postmaster = int((server.data / "postmaster.pid").read_text().split()[0])
    owner.kill()
    owner.wait()
    os.kill(postmaster, signal.SIGKILL)
    connection.terminate()

    server.start()
    connection = await asyncpg.connect(server.url())
    assert await connection.fetchval("select x from kept") == 42
    await connection.close()


async def test_an_orphaned_server_is_replaced(server: EmbeddedServer) -> None:
    owner, url = start_owner(server.folder)
    orphan = int((server.data / "postmaster.pid").read_text().split()[0])
    connection = await asyncpg.connect(url)
    await connection.execute("create table kept (x int)")
    owner.kill()
    owner.wait()
    assert psutil.pid_exists(orphan)
    connection.terminate()

    said: list[str] = []
    server.start(said.append)
    assert any("left behind" in words for words in said)
    assert orphan not in {process.pid for process in processes_on(server.data)}
    connection = await asyncpg.connect(server.url())
    assert await connection.fetchval("select to_regclass('kept')") is not None
    await connection.close()


async def test_two_owners_of_one_folder_are_refused_and_the_first_lives_on(server: EmbeddedServer) -> None:
    server.start()
    with pytest.raises(EmbeddedServerError, match=rf"in use by another Latchkey \(process {os.getpid()}\)"):
        EmbeddedServer(server.folder).start()
    connection = await asyncpg.connect(server.url())
    await connection.close()


async def test_a_stale_pid_file_that_names_a_living_process_does_not_stop_the_start(server: EmbeddedServer) -> None:
    server.start()
    server.stop()
    (server.data / "postmaster.pid").write_text(f"{os.getppid()}\n{server.data}\n1\n5432\n/tmp\n\n1 1\nready\n")
    server.start()
    connection = await asyncpg.connect(server.url())
    await connection.close()


def test_an_interrupted_first_start_leaves_nothing_half_done(server: EmbeddedServer) -> None:
    draft = server.folder / "postgres.new"
    draft.mkdir(parents=True)
    (draft / "PG_VERSION").write_text("18\n")
    server.start()
    assert not draft.exists()


def test_stopping_leaves_no_process_and_frees_the_folder(server: EmbeddedServer) -> None:
    server.start()
    server.stop()
    assert processes_on(server.data) == []
    server.start()


def test_a_path_too_long_for_a_socket_falls_back_to_a_short_private_one(short_folder: Path) -> None:
    server = EmbeddedServer(short_folder / ("a" * 60) / ("with spaces, and commas " * 2))
    try:
        server.start()
        sockets = Path(server.url().split("host=")[1])
        assert len(os.fsencode(sockets / SOCKET_NAME)) <= SOCKET_LIMIT
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
        told = subprocess.run(
            [server.programs / "psql", server.url(), "-Atc", "select 7"], capture_output=True, text=True
        )
        assert told.stdout.strip() == "7", told.stderr
    finally:
        server.stop()
        sockets.rmdir()


async def test_committed_means_on_disk_and_only_a_socket_listens(server: EmbeddedServer) -> None:
    server.start()
    connection = await asyncpg.connect(server.url())
    shown = {
        name: await connection.fetchval(f"show {name}")
        for name in ("fsync", "synchronous_commit", "full_page_writes", "listen_addresses", "max_connections", "jit")
    }
    # What is wrong with a row is in the log; what is in the row is not.
    await connection.execute("create table people (id text primary key)")
    for _ in range(2):
        with suppress(asyncpg.UniqueViolationError):
            await connection.execute("insert into people values ('ada@example.com')")
    await connection.close()
    assert "people_pkey" in server.log.read_text()
    assert "ada@" not in server.log.read_text()
    assert shown == {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "listen_addresses": "",
        "max_connections": "100",
        "jit": "off",
    }
    assert [c for p in processes_on(server.data) for c in p.net_connections("inet")] == []


def test_data_of_another_major_version_is_refused(server: EmbeddedServer) -> None:
    server.data.mkdir(parents=True)
    (server.data / "PG_VERSION").write_text("16\n")
    server_user().own(server.data)
    with pytest.raises(EmbeddedServerError, match="PostgreSQL 16"):
        server.start()


def test_a_server_that_cannot_start_shows_the_end_of_its_log(short_folder: Path) -> None:
    server = EmbeddedServer(short_folder / "broken", settings={"shared_buffers": "no such size"})
    with pytest.raises(EmbeddedServerError, match="shared_buffers"):
        server.start()


def test_only_walking_is_granted_and_only_where_it_is_missing(tmp_path: Path) -> None:
    closed, opened = tmp_path / "closed", tmp_path / "closed" / "opened"
    opened.mkdir(parents=True)
    closed.chmod(0o700)
    opened.chmod(0o755)
    stranger = SystemUser("stranger", 64_000, 64_000)
    if os.geteuid() == 0:
        assert closed in stranger.open_way_to(opened / "file")
        assert stat.S_IMODE(closed.stat().st_mode) == 0o701
        assert stat.S_IMODE(opened.stat().st_mode) == 0o755
    assert not SystemUser("me", os.geteuid(), os.getegid()).open_way_to(opened / "file")
