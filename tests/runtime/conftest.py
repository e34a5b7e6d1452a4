"""Web content in real Chromium, and a push provider."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from tests.push.conftest import certificates, provider
from tests.runtime.web import APP, EARLY, Web

__all__ = ["certificates", "provider"]


@pytest.fixture
async def web(browser: Browser) -> AsyncIterator[Web]:
    context = await browser.new_context()
    web = Web(context)
    await context.route("**/*", web.answer)
    web.put(f"{APP}/", script=EARLY)
    yield web
    await context.close()
