"""One embedded PostgreSQL and one real Chromium for each test process, and a fresh migrated database for each test that
asks for one."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
import structlog
from playwright.async_api import Browser, async_playwright, expect

from latchkey import logs
from latchkey.runtime.chromium import FLAGS, find_chromium
from latchkey.runtime.errors import ChromiumMissingError
from latchkey.storage.database import Database
from latchkey.storage.embedded.server import DATABASE, EmbeddedServer
from latchkey.storage.migrate import migrate
from tests.machine import ensure
from tests.patience import PATIENCE

# Nothing here survives the run, so nothing needs to reach the disk. Tests about crashes start a server of their own.
UNSAFE_BUT_FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "io_method": "sync",
    "autovacuum": "off",
}

_numbers = itertools.count(1)
expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """Whoever configures the log does it for one test: the next one must hear what it says, whatever came before."""
    before, chosen = structlog.get_config(), (logs._writes_info, logs._json_stream)
    yield
    structlog.configure(**before)
    logs._writes_info, logs._json_stream = chosen


@pytest.fixture(scope="session")
def short_folder() -> Iterator[Path]:
    """A folder near the root: pytest closes its own to other users with every new run, and their paths are long."""
    folder = Path(tempfile.mkdtemp(prefix="latchkey-test-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(short_folder: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(short_folder / "server", settings=UNSAFE_BUT_FAST)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
async def template(postgres: EmbeddedServer) -> str:
    """The name of a migrated database that new ones are copied from: 30 ms instead of replaying the migrations."""
    connection = await asyncpg.connect(postgres.url())
    await migrate(connection)
    await connection.close()
    return DATABASE


@pytest.fixture(scope="session")
async def administration(postgres: EmbeddedServer) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(postgres.url("postgres"))
    yield connection
    await connection.close()


@pytest.fixture
async def database_url(
    postgres: EmbeddedServer, template: str, administration: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[str]:
    """The address of a fresh, migrated, empty database."""
    name = f"test_{next(_numbers)}"
    await administration.execute(f"create database {name} template {template} strategy file_copy")
    yield postgres.url(name)
    await administration.execute(f"drop database {name} with (force)")


@pytest.fixture
async def empty_database_url(
    postgres: EmbeddedServer, administration: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[str]:
    """The address of a database with no tables at all."""
    name = f"test_{next(_numbers)}"
    await administration.execute(f"create database {name} strategy file_copy")
    yield postgres.url(name)
    await administration.execute(f"drop database {name} with (force)")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A fresh, migrated, empty database, open."""
    async with Database(database_url, max_size=8) as database:
        yield database


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Tests in a browser never skip: it is installed, or they say what is missing."""
    try:
        return find_chromium()
    except ChromiumMissingError:
        ensure("chromium")
        return find_chromium()


@pytest.fixture(scope="session")
async def browser(chromium: Path) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        await browser.close()
