from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from latchkey.database.pool import Database
from latchkey.engine.changes import Changes
from latchkey.process.http_application import create_application
from latchkey.settings import Settings
from latchkey.subjects.demo.usecases.project import Demo, ensure_demo
from tests.databases import DemoShelf
from tests.http.client import METRICS_KEY, Client, Clock, Shop, running
from tests.http.doings import unhurried
from tests.http.receiving import Post, delivering, posting

# Where a store emulator runs.
LOOPBACK = "127.0.0.1"


@pytest.fixture
async def shop(demo_shelf: DemoShelf) -> AsyncIterator[Shop]:
    async with demo_shelf.shelf.lend() as database, opened(database, demo_shelf.demo) as shop:
        yield shop


@pytest.fixture(scope="module")
async def steady_shop(demo_shelf: DemoShelf) -> AsyncIterator[Shop]:
    """One shop for all tests of a file, for those that are refused and those that keep to customers of their own."""
    async with demo_shelf.shelf.lend() as database, opened(database, demo_shelf.demo) as shop:
        await unhurried(shop)
        yield shop


@pytest.fixture
async def post(demo_shelf: DemoShelf, short_folder: Path) -> AsyncIterator[Post]:
    """A shop with a receiver of webhooks, and nothing that sends them but test events."""
    async with (
        demo_shelf.shelf.lend() as database,
        posting(database, short_folder, demo=demo_shelf.demo) as post,
    ):
        await unhurried(post)
        yield post


@pytest.fixture
async def sending(post: Post) -> AsyncIterator[Post]:
    """The same while the delivery role runs."""
    async with delivering(post):
        yield post


@asynccontextmanager
async def opened(database: Database, demo: Demo | None = None) -> AsyncIterator[Shop]:
    """The shop in this database, which has the demo already if its keys are given."""
    clock = Clock()
    demo = demo or await ensure_demo(database, clock.now, secret_key=None, public_key=None)
    settings = Settings(
        database_url=database.url,
        secret_key=bytes(32),
        store_allow_hosts=(LOOPBACK,),
        keys_create_projects=True,
        metrics_key=METRICS_KEY,
    )
    app = create_application(database, settings, clock)
    async with running(app):
        changes = Changes(database, clock)
        yield Shop(
            database, Client(app, demo.secret_key, demo.public_key), clock, changes, demo.secret_key, demo.public_key
        )
