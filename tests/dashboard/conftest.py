from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from latchkey.domain.team.account import Role
from tests.api.doings import unhurried
from tests.dashboard.accessibility import faults, seen_pages
from tests.dashboard.site import Site, Visitor, opened, visiting
from tests.databases import Shelf


@pytest.fixture(scope="module")
async def site(shelf: Shelf, short_folder: Path, browser: Browser) -> AsyncIterator[Site]:
    """One site for all tests of a file; each keeps to customers and things of its own. All pages that they saw are
    accessible and fit the screen."""
    with seen_pages() as seen:
        async with shelf.lend() as database, opened(database, short_folder) as site:
            await unhurried(site)
            yield site
        found = await faults(browser, seen)
    assert not found, "\n".join(found)


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
