"""The demo's story in real Chromium over a real `latchkey up`, told from the first page to the last."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from latchkey.consumer.texts import read_texts
from latchkey.runtime.device import Device, DeviceOptions
from tests.cli.running import Up
from tests.runtime.test_device import seen_on


@pytest.fixture(scope="module")
def up(short_folder: Path) -> Iterator[Up]:
    with Up(short_folder / "story", "--port", "0") as up:
        up.wait_until_ready()
        yield up
        assert up.terminate() == 0


@pytest.fixture
def app(up: Up) -> str:
    url: str = up.connection["consumer"]["base_url"]
    return url


def phone(up: Up, app: str, state: Path, **more: Any) -> Device:
    push = up.connection["push"]
    ca = Path(up.connection["ca_cert"])
    return Device(
        DeviceOptions(state=state, origins=(app,), push_url=push["base_url"], app_id=push["app_id"], ca=ca, **more)
    )


@pytest.fixture
async def device(up: Up, app: str, chromium: Path, tmp_path: Path) -> AsyncIterator[Device]:
    async with phone(up, app, tmp_path / "phone") as device:
        await device.open(f"{app}/")
        yield device


async def shows(device: Device, state: str) -> None:
    await expect(device.page.locator("body")).to_have_attribute("data-state", state, timeout=15_000)


async def press(device: Device, label: str) -> None:
    await device.page.get_by_role("button", name=label).click()


async def told(device: Device) -> list[str]:
    """The event types on the page's timeline, the newest first."""
    return await device.page.locator("#events code").all_text_contents()


async def test_from_signing_in_to_the_end_without_ever_reloading(device: Device) -> None:
    page = device.page
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type in {"warning", "error"} else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    await page.evaluate("window.neverReloaded = true")

    await shows(device, "signed-out")
    await press(device, "Mia")
    await shows(device, "free")
    await expect(page.locator("#device")).to_have_attribute("data-player", device.player_id or "")

    await press(device, "Get Pro")
    await shows(device, "pro")
    assert await told(device) == ["INITIAL_PURCHASE"]

    await press(device, "Let the payment fail")
    await shows(device, "trouble")
    notification = await device.next_notification(20)
    expected = read_texts()["billing_issue"]["en"]
    assert (notification.heading, notification.content) == (expected.heading, expected.content)
    assert expected.content in await seen_on(device)

    await press(device, "Pay now")
    await shows(device, "pro")
    await press(device, "Cancel Pro")
    await shows(device, "cancelled")
    await press(device, "To the end")
    await shows(device, "ended")
    assert await told(device) == ["EXPIRATION", "CANCELLATION", "RENEWAL", "BILLING_ISSUE", "INITIAL_PURCHASE"]

    await expect(page.get_by_role("button", name="To the end")).to_be_disabled()
    assert await page.evaluate("window.neverReloaded")
    assert problems == []
