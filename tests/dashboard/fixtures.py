import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from latchkey.subjects.accounts.rules import Role
from tests.dashboard.accessibility import faults, seen_pages
from tests.dashboard.site import Site, Visitor, opened, visiting
from tests.databases import Shelf
from tests.http.doings import unhurried


@pytest.fixture(scope="session")
def checked_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folder in all test processes of a run: each of them has a folder of its own in the one of the run."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "checked-pages"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="module")
async def site(shelf: Shelf, short_folder: Path, browser: Browser, checked_pages: Path) -> AsyncIterator[Site]:
    """One site for all tests of a file; each keeps to customers and things of its own. All pages that they saw are
    accessible and fit the screen."""
    with seen_pages() as seen:
        async with shelf.lend() as database, opened(database, short_folder) as site:
            await unhurried(site)
            yield site
        found = await faults(browser, seen, checked_pages)
    assert not found, "\n".join(found)


def _visitor(role: Role | None) -> Any:
    async def visitor(browser: Browser, site: Site) -> AsyncIterator[Visitor]:
        async with visiting(browser, site, role) as visitor:
            yield visitor

    return pytest.fixture(visitor)


owner, developer, support, viewer = map(_visitor, (Role.OWNER, Role.DEVELOPER, Role.SUPPORT, Role.VIEWER))
# Somebody who is not signed in.
stranger = _visitor(None)
