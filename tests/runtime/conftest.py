"""Real Chromium. These tests are about what it does, so they never skip: it is installed, or they say how."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright

from latchkey.cli.authority import Certificates
from latchkey.runtime.chromium import FLAGS, find_chromium
from latchkey.runtime.errors import ChromiumMissingError
from tests.push.providing import Provider, certificates_in, providing
from tests.runtime.web import APP, EARLY, Web


@pytest.fixture(scope="session")
def chromium() -> Path:
    try:
        return find_chromium()
    except ChromiumMissingError as missing:
        if os.geteuid() == 0 and shutil.which("apt-get"):
            for words in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
                subprocess.run(["apt-get", "-qq", *words], capture_output=True, timeout=600)
            return find_chromium()
        raise AssertionError(str(missing)) from missing


@pytest.fixture(scope="session")
async def browser(chromium: Path) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        await browser.close()


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
