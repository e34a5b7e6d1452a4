from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from playwright.async_api import Browser

from latchkey.domain.team.account import Role
from latchkey.storage.database import Database
from latchkey.storage.embedded.server import EmbeddedServer
from tests.api.doings import unhurried
from tests.dashboard.site import Site, Visitor, opened, visiting

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
async def site(
    postgres: EmbeddedServer,
    template: str,
    administration: asyncpg.Connection[asyncpg.Record],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Site]:
    """One site for all tests of a file; each keeps to customers and things of its own."""
    name = f"site_{next(_numbers)}"
    await administration.execute(f"create database {name} template {template} strategy file_copy")
    folder: Path = tmp_path_factory.mktemp("site")
    async with Database(postgres.url(name), max_size=8) as database, opened(database, folder) as site:
        await unhurried(site)
        yield site
    await administration.execute(f"drop database {name} with (force)")


@pytest.fixture
async def owner(browser: Browser, site: Site) -> AsyncIterator[Visitor]:
    async with visiting(browser, site, Role.OWNER) as visitor:
        yield visitor


@pytest.fixture
async def developer(browser: Browser, site: Site) -> AsyncIterator[Visitor]:
    async with visiting(browser, site, Role.DEVELOPER) as visitor:
        yield visitor


@pytest.fixture
async def support(browser: Browser, site: Site) -> AsyncIterator[Visitor]:
    async with visiting(browser, site, Role.SUPPORT) as visitor:
        yield visitor


@pytest.fixture
async def viewer(browser: Browser, site: Site) -> AsyncIterator[Visitor]:
    async with visiting(browser, site, Role.VIEWER) as visitor:
        yield visitor


@pytest.fixture
async def stranger(browser: Browser, site: Site) -> AsyncIterator[Visitor]:
    """Somebody who is not signed in."""
    async with visiting(browser, site, None) as visitor:
        yield visitor
