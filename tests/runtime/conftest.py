"""Web content in real Chromium, and a push provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from latchkey.cli.authority import Certificates
from tests.push.providing import Provider, certificates_in, providing
from tests.runtime.web import APP, EARLY, Web


@pytest.fixture(scope="session")
def certificates(short_folder: Path) -> Certificates:
    return certificates_in(short_folder / "runtime-tls")


@pytest.fixture
async def provider(certificates: Certificates) -> AsyncIterator[Provider]:
    async with providing(certificates) as provider:
        yield provider


@pytest.fixture
async def web(browser: Browser) -> AsyncIterator[Web]:
    context = await browser.new_context()
    web = Web(context)
    await context.route("**/*", web.answer)
    web.put(f"{APP}/", script=EARLY)
    yield web
    await context.close()
