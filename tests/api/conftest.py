from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from latchkey.api.application import create_application
from latchkey.settings import Settings
from latchkey.storage.database import Database
from latchkey.storage.embedded.server import EmbeddedServer
from latchkey.usecases.engine.changes import Changes
from latchkey.usecases.sandbox.demo import ensure_demo
from tests.api.client import Client, Clock, Shop, running
from tests.api.doings import unhurried
from tests.api.receiving import Post, delivering, posting

_numbers = itertools.count(1)
# Where a pretend store runs.
LOOPBACK = "127.0.0.1"


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Shop]:
    async with opened(database) as shop:
        yield shop


@pytest.fixture(scope="module")
async def steady_shop(
    postgres: EmbeddedServer, template: str, administration: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[Shop]:
    """One shop for all tests of a file, for those that are refused and those that keep to customers of their own."""
    name = f"steady_{next(_numbers)}"
    await administration.execute(f"create database {name} template {template} strategy file_copy")
    async with Database(postgres.url(name), max_size=8) as database, opened(database) as shop:
        await unhurried(shop)
        yield shop
    await administration.execute(f"drop database {name} with (force)")


@pytest.fixture
async def post(database: Database, tmp_path: Path) -> AsyncIterator[Post]:
    """A shop with a receiver of webhooks, and nothing that sends them but test events."""
    async with posting(database, tmp_path) as post:
        await unhurried(post)
        yield post


@pytest.fixture
async def sending(post: Post) -> AsyncIterator[Post]:
    """The same while the delivery role runs."""
    async with delivering(post):
        yield post


@asynccontextmanager
async def opened(database: Database) -> AsyncIterator[Shop]:
    clock = Clock()
    demo = await ensure_demo(database, clock.now, secret_key=None, public_key=None)
    settings = Settings(database_url=database.url, secret_key=bytes(32), store_allow_hosts=(LOOPBACK,))
    app = create_application(database, settings, clock)
    async with running(app):
        changes = Changes(database, clock)
        yield Shop(
            database, Client(app, demo.secret_key, demo.public_key), clock, changes, demo.secret_key, demo.public_key
        )
