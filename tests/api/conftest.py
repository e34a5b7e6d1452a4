from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.api.client import Client, Clock, Shop, running

from latchkey.api.application import create_application
from latchkey.settings import Settings
from latchkey.storage.database import Database
from latchkey.usecases.changes import Changes
from latchkey.usecases.demo import ensure_demo


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Shop]:
    clock = Clock()
    demo = await ensure_demo(database, clock.now, secret_key=None, public_key=None)
    app = create_application(database, Settings(database_url=database.url), clock)
    async with running(app):
        changes = Changes(database, clock)
        yield Shop(database, Client(app, demo.secret_key), clock, changes, demo.secret_key, demo.public_key)
