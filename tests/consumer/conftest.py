"""Both databases, each migrated once. Every test gets a copy, or one that was reset."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from latchkey import logs
from latchkey.consumer.storage.consumer_database import ConsumerDatabase
from latchkey.consumer.storage.schema import migrate
from latchkey.database.embedded.postgres import EmbeddedServer
from tests.consumer.world import World, world
from tests.databases import Shelf
from tests.push.conftest import certificates, provider

__all__ = ["certificates", "provider"]

HOSTED = {"test_endpoints", "test_receiver", "test_devices", "test_unknown"}
TEMPLATE = "consumer_template"


@pytest.fixture(autouse=True)
def plain_logs() -> None:
    # The pretty tracebacks of an unconfigured logger take half a second each.
    logs.configure(form="json")


@pytest.fixture(scope="session")
async def sqlite_template(short_folder: Path) -> Path:
    path = short_folder / "template.db"
    database = ConsumerDatabase(f"sqlite:///{path}")
    await migrate(database)
    await database.close()
    return path


@pytest.fixture(scope="session")
async def postgres_shelf(
    postgres: EmbeddedServer, administration: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[Shelf]:
    await administration.execute(f"create database {TEMPLATE} strategy file_copy")
    database = ConsumerDatabase(postgres.url(TEMPLATE))
    await migrate(database)
    await database.close()
    shelf = Shelf(postgres, administration, TEMPLATE)
    yield shelf
    await shelf.close()


@pytest.fixture
async def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    shutil.copy(sqlite_template, tmp_path / "consumer.db")
    return f"sqlite:///{tmp_path / 'consumer.db'}"


@pytest.fixture
async def postgres_url(postgres_shelf: Shelf) -> AsyncIterator[str]:
    async with postgres_shelf.lend() as database:
        yield database.url


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """The address of a migrated, empty database: SQLite, or of either kind with `@both_databases`."""
    found: str = request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_url")
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The cases of these files are run through the consumer by itself and in every framework."""
    if metafunc.module.__name__.rpartition(".")[2] in HOSTED and "here" in metafunc.fixturenames:
        metafunc.parametrize("host", ["", "fastapi", "flask", "django"], ids=lambda host: host or "alone")


@pytest.fixture
def host() -> str:
    return ""


@pytest.fixture
async def here(url: str, host: str) -> AsyncIterator[World]:
    async with world(url, host) as made:
        yield made
