"""`make screenshots`: pages of the dashboard of a project with a few months of history."""

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright

from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.pool import Database
from latchkey.runtime.chromium import FLAGS, find_chromium
from tests.connections import migrated
from tests.dashboard.lively import fill
from tests.dashboard.site import Site, opened, visiting

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
# The most bytes that one picture of the docs may have.
LARGEST = 250_000
# Those that the docs show.
SHOWN = {"overview", "chart", "customer", "events", "webhook", "catalog", "test-clock"}
DESK = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}


async def places(site: Site) -> dict[str, str]:
    """What to show, by the name of its picture."""
    hooks = (await site.shown(""))["items"]
    clocks = (await site.client.get(f"/v2/projects/{site.project_id}/test_clocks")).json()["items"]
    return {
        "overview": "?days=28",
        "charts": "/charts",
        "chart": "/charts/mrr?segment=product",
        "customers": "/customers",
        "customer": "/customers/grace",
        "events": "/events",
        "webhooks": "/webhooks",
        "webhook": f"/webhooks/{hooks[-1]['id']}",
        "deliveries": f"/webhooks/{hooks[-1]['id']}/deliveries",
        "catalog": "/catalog",
        "test-clock": f"/test-clocks/{clocks[0]['id']}",
        "experiments": "/experiments",
        "currencies": "/currencies",
        "apps": "/apps",
        "keys": "/keys",
        "settings": "/settings",
        "team": "/team",
        "audit": "/audit",
    }


async def take(
    site: Site, folder: Path, browser: Any, *, every: bool, suffix: str = "", whole: bool = False, **options: Any
) -> None:
    async with visiting(browser, site, **options) as visitor:
        for name, path in (await places(site)).items():
            if not every and name not in SHOWN:
                continue
            page = await visitor.open(path)
            file = folder / f"dashboard-{name}{suffix}.png"
            await page.screenshot(path=file, scale="css", full_page=whole)
            size = file.stat().st_size
            assert whole or size < LARGEST, f"{file.name} has {size} bytes"
            await page.close()


async def run(folder: Path, *, everything: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="latchkey-pictures-") as place:
        server = EmbeddedServer(Path(place) / "server")
        await asyncio.to_thread(server.start)
        try:
            await migrated(server.url())
            async with (
                Database(server.url(), max_size=8) as database,
                opened(database, Path(place)) as site,
                async_playwright() as playwright,
            ):
                await fill(site)
                browser = await playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
                await take(site, folder, browser, every=everything, viewport=DESK)
                if everything:
                    whole = {"every": True, "whole": True}
                    await take(site, folder, browser, suffix="-dark", viewport=DESK, color_scheme="dark", **whole)
                    await take(site, folder, browser, suffix="-phone", viewport=PHONE, **whole)
                await browser.close()
        finally:
            await asyncio.to_thread(server.stop)


def command(run: Callable[..., Coroutine[Any, Any, None]], description: str | None, everything: str) -> None:
    asking = argparse.ArgumentParser(description=description)
    asking.add_argument("--folder", type=Path, default=IMAGES)
    asking.add_argument("--everything", action="store_true", help=everything)
    asked = asking.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(run(asked.folder, everything=asked.everything))


if __name__ == "__main__":
    command(run, __doc__, "every page, also in dark mode and on a phone")
