"""`make screenshots`: the pictures of docs/story.md, taken on a real device over a real `latchkey up`."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from playwright.async_api import Page

from latchkey.runtime.reference_device import Device, DeviceOptions
from tests.cli.running import Up
from tests.dashboard.screenshots import command

# The most bytes that one picture of the docs may have.
LARGEST = 150_000


@asynccontextmanager
async def device_of(up: Up, state: Path) -> AsyncIterator[Device]:
    connection = up.connection
    app, push = connection["consumer"]["base_url"], connection["push"]
    options = DeviceOptions(
        state=state,
        origins=(app,),
        push_url=push["base_url"],
        app_id=push["app_id"],
        ca=Path(connection["ca_cert"]),
    )
    async with Device(options) as device:
        await device.open(f"{app}/")
        yield device


async def press(page: Page, label: str, then: str) -> None:
    await page.get_by_role("button", name=label).click()
    await page.locator(f"body[data-state={then}]:not([aria-busy])").wait_for()


async def picture(page: Page, name: str, folder: Path) -> None:
    # Wait for the page's animation.
    await page.wait_for_timeout(1_200)
    path = folder / f"story-{name}.png"
    await page.screenshot(path=path, scale="css")
    size = path.stat().st_size
    assert size < LARGEST, f"{path.name} has {size} bytes"


async def story(device: Device, user: str, scheme: Literal["light", "dark"], folder: Path, suffix: str = "") -> None:
    page = device.page
    await page.emulate_media(color_scheme=scheme)
    await picture(page, f"signed-out{suffix}", folder)
    await press(page, user, "free")
    await picture(page, f"free{suffix}", folder)
    await press(page, "Get Pro", "pro")
    await picture(page, f"pro{suffix}", folder)
    await press(page, "Let the payment fail", "trouble")
    await device.next_notification(20)
    await picture(page, f"push{suffix}", folder)
    await page.wait_for_timeout(6_500)
    await press(page, "Pay now", "pro")
    await press(page, "Cancel Pro", "cancelled")
    await picture(page, f"cancelled{suffix}", folder)
    await press(page, "To the period's end", "ended")
    await picture(page, f"ended{suffix}", folder)
    await page.get_by_role("button", name="Sign out").click()


async def run(folder: Path, *, everything: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="latchkey-story-") as place, Up(Path(place) / "up", "--port", "0") as up:
        await asyncio.to_thread(up.wait_until_ready)
        async with device_of(up, Path(place) / "phone") as device:
            await story(device, "Mia", "light", folder)
            if everything:
                await story(device, "Noah", "dark", folder, "-dark")
                await device.page.set_viewport_size({"width": 1200, "height": 800})
                await press(device.page, "Zoe", "free")
                await press(device.page, "Get Pro", "pro")
                await picture(device.page, "wide", folder)
        await asyncio.to_thread(up.terminate)


if __name__ == "__main__":
    command(run, __doc__, "also in dark mode, and on a wide screen")
