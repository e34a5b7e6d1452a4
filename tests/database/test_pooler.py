"""A real pgbouncer between us and PostgreSQL."""

import asyncio
import base64
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from latchkey.database.embedded.system_user import server_user
from latchkey.database.pool import Database
from tests import machine
from tests.cli.running import free_port, latchkey, typed
from tests.patience import until

Pooler = Callable[[str], str]


@pytest.fixture
def pooler(database_url: str, short_folder: Path) -> Iterator[Pooler]:
    """Starts one in a mode, and gives its address."""
    if shutil.which("pgbouncer") is None:
        machine.skip("pgbouncer", "Install it to see Latchkey behind a pooler.")
    running: list[subprocess.Popen[bytes]] = []
    user, parts = server_user(), urlsplit(database_url)
    sockets, port = parse_qs(parts.query)["host"][0], free_port()

    def start(mode: str) -> str:
        config = short_folder / f"pgbouncer-{port}.ini"
        config.write_text(
            f"[databases]\n* = host={sockets} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nauth_type = any\npool_mode = {mode}\nunix_socket_dir =\n"
        )
        config.chmod(0o644)
        user.open_way_to(config)
        running.append(
            subprocess.Popen(
                ["pgbouncer", "--quiet", str(config)],
                **user.switch,
            )
        )
        return f"postgresql://postgres@127.0.0.1:{port}{parts.path}"

    yield start
    for process in running:
        process.kill()
        process.wait()


async def listens(url: str) -> bool:
    try:
        await (await asyncpg.connect(url)).close()
    except OSError:
        return False
    return True


async def test_session_mode_needs_no_setting_of_pgbouncer(pooler: Pooler) -> None:
    url = pooler("session")
    await until(lambda: listens(url))
    async with Database(url, statement_timeout_ms=7_000) as database, database.at_hand() as connection:
        assert await connection.fetchval("show statement_timeout") == "7s"
        assert await connection.fetchval("show plan_cache_mode") == "force_generic_plan"
    told = await asyncio.to_thread(typed, "doctor", LATCHKEY_DATABASE_URL=url)
    assert "pooler" not in told.stdout


async def test_transaction_mode_is_refused_by_serve_and_by_doctor(pooler: Pooler) -> None:
    url = pooler("transaction")
    await until(lambda: listens(url))
    key = base64.b64encode(b"k" * 32).decode()
    for command, code in (("serve", 2), ("doctor", 1)):
        told = await asyncio.to_thread(
            latchkey, command, LATCHKEY_DATABASE_URL=url, LATCHKEY_SECRET_KEY=key, LATCHKEY_BEHIND_PROXY="true"
        )
        assert (told.returncode, "a pooler in transaction mode" in told.stdout + told.stderr) == (code, True), told
        assert "Traceback" not in told.stderr
