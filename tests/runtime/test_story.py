"""The demo app in real Chromium over a real `latchkey up`, from signing in to the end of the subscription."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from playwright.async_api import Browser, expect

from latchkey.cli.demo_app.story import PAGES
from latchkey.consumer.consumer_settings import Settings
from latchkey.consumer.push_texts import read_texts
from latchkey.consumer.reference_consumer import Consumer
from latchkey.runtime.reference_device import Device, DeviceOptions
from tests.cli.running import Up, get
from tests.patience import PATIENCE
from tests.runtime.test_device import seen_on


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
    await expect(device.page.locator("body")).to_have_attribute("data-state", state)


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
    notification = await device.next_notification(PATIENCE)
    expected = read_texts()["billing_issue"]["en"]
    assert (notification.heading, notification.content) == (expected.heading, expected.content)
    assert expected.content in await seen_on(device)

    await press(device, "Pay now")
    await shows(device, "pro")
    await press(device, "Cancel Pro")
    await shows(device, "cancelled")
    await press(device, "To the period's end")
    await shows(device, "ended")
    assert await told(device) == ["EXPIRATION", "CANCELLATION", "RENEWAL", "BILLING_ISSUE", "INITIAL_PURCHASE"]

    await expect(page.get_by_role("button", name="To the period's end")).to_be_disabled()
    assert await page.evaluate("window.neverReloaded")
    assert problems == []


async def test_a_plain_browser_and_a_keyboard_are_enough(app: str, browser: Browser) -> None:
    context = await browser.new_context(ignore_https_errors=True)
    page = await context.new_page()
    await page.goto(f"{app}/")
    await page.get_by_role("button", name="Noah").focus()
    for state in ("free", "pro", "cancelled", "pro"):
        await page.keyboard.press("Enter")
        await expect(page.locator(f"body[data-state={state}]")).to_be_visible()
        await expect(page.locator("#wishes button").first).to_be_focused()
    await expect(page.locator("#device")).to_contain_text("No notifications here")

    # Without a payment, first the paid period ends, then the grace period.
    await page.get_by_role("button", name="Let the payment fail").click()
    for state in ("trouble", "trouble", "ended"):
        await expect(page.locator(f"body[data-state={state}]:not([aria-busy])")).to_be_visible()
        if state == "trouble":
            await page.get_by_role("button", name="To the period's end").click()
    await context.close()


async def test_a_phone_gets_no_push_for_the_user_who_held_it_before(up: Up, app: str, device: Device) -> None:
    page = device.page
    await press(device, "Mia")
    await expect(page.locator("#device")).to_have_attribute("data-player", device.player_id or "")
    mia = await token_on(device)
    assert device.player_id in phones(up, app, mia)
    await page.reload()
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()

    async with page.expect_response(lambda reply: reply.request.method == "DELETE"):
        await press(device, "Sign out")
    assert device.player_id not in phones(up, app, mia)
    async with page.expect_response(f"{app}/api/devices"):
        await press(device, "Zoe")
    assert device.player_id in phones(up, app, await token_on(device))


async def test_a_push_provider_that_is_away_delays_nothing_but_the_push(up: Up, app: str, device: Device) -> None:
    push = up.connection["push"]
    await press(device, "Zoe")
    await press(device, "Get Pro")
    await shows(device, "pro")
    fault = f"{push['base_url']}/sandbox/fault"
    assert ask(up, "PUT", fault, f"Key {push['rest_api_key']}", {"kind": "down", "times": 1})[0] == 200
    await press(device, "Let the payment fail")
    await shows(device, "trouble")
    assert (await device.next_notification(PATIENCE)).heading == read_texts()["billing_issue"]["en"].heading


def test_forged_and_foreign_tokens_reach_nothing(up: Up, app: str) -> None:
    forged = jwt.encode({"sub": "mia", "exp": 4_000_000_000}, "somebody else's secret, long enough", "HS256")
    alice = up.connection["consumer"]["users"][0]["token"]
    buy = {"action": "buy"}
    assert ask(up, "POST", f"{app}/demo/actions", f"Bearer {forged}", buy) == (401, {"error": "Unauthorized"})
    assert ask(up, "GET", f"{app}/demo/live", f"Bearer {forged}")[0] == 401
    assert ask(up, "POST", f"{app}/api/devices", f"Bearer {forged}", {"player_id": "p"})[0] == 401
    assert ask(up, "POST", f"{app}/demo/actions", f"Bearer {alice}", buy)[0] == 403
    assert ask(up, "POST", f"{app}/demo/session", "", {"user": "alice"})[0] == 404


def test_a_forged_webhook_is_not_part_of_the_story(up: Up, app: str) -> None:
    event = {"id": "forged", "type": "EXPIRATION", "app_user_id": "mia", "event_timestamp_ms": 1, "entitlements": {}}
    webhook = {"api_version": "1.0", "event": event}
    assert ask(up, "POST", f"{app}/webhooks/billing", "Bearer wrong", webhook)[0] == 401
    _, session = ask(up, "POST", f"{app}/demo/session", "", {"user": "mia"})
    asked = urllib.request.Request(f"{app}/demo/live", headers={"Authorization": f"Bearer {session['token']}"})
    with urllib.request.urlopen(asked, context=trusting(up), timeout=PATIENCE) as live:
        story = json.loads(live.readline().removeprefix(b"data: "))
    assert story["user"] == "mia"
    assert "forged" not in [event["id"] for event in story["events"]]


def test_what_makes_no_sense_is_refused_in_plain_words(up: Up, app: str) -> None:
    _, session = ask(up, "POST", f"{app}/demo/session", "", {"user": "mia"})
    mia = f"Bearer {session['token']}"
    status, said = ask(up, "POST", f"{app}/demo/actions", mia, {"action": "pay"})
    assert (status, bool(said["error"])) == (409, True)
    assert ask(up, "POST", f"{app}/demo/actions", mia, {"action": "steal"})[0] == 400
    assert ask(up, "GET", f"{app}/demo/actions", mia) == (405, {"error": "Method not allowed"})


def test_no_secret_is_in_anything_that_a_page_can_load(up: Up, app: str) -> None:
    connection = up.connection
    kept = json.loads((up.folder / "consumer" / "consumer.json").read_text())
    secrets = [
        connection["api_key"],
        kept["api_key"],
        kept["jwt_secret"],
        kept["operator_token"],
        kept["webhook_secret"],
        connection["push"]["rest_api_key"],
    ]
    for path in (*PAGES, "/demo/offer"):
        status, said = get(app, connection["ca_cert"], path)
        assert status == 200, path
        assert not [secret for secret in secrets if secret.encode() in said], path
    for log in up.folder.glob("*.log"):
        assert not [secret for secret in secrets if secret in log.read_text()], log


def test_the_consumer_of_real_users_has_none_of_it(tmp_path: Path) -> None:
    settings = Settings(service_url="https://service.example", database_url=f"sqlite:///{tmp_path / 'consumer.db'}")
    consumer = Consumer(settings)
    assert not [route for route in consumer.routes if getattr(route, "path", "") in PAGES]


def trusting(up: Up) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=up.connection["ca_cert"])


def ask(up: Up, method: str, url: str, authorization: str, body: Any = None) -> tuple[int, Any]:
    headers = {"Authorization": authorization, "Content-Type": "application/json"}
    sent = json.dumps(body).encode() if body is not None else None
    asked = urllib.request.Request(url, sent, headers, method=method)
    try:
        with urllib.request.urlopen(asked, context=trusting(up), timeout=PATIENCE) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


async def token_on(device: Device) -> str:
    kept = await device.page.evaluate("localStorage.getItem('lamplight-session')")
    token: str = json.loads(kept)["token"]
    return token


def phones(up: Up, app: str, token: str) -> list[str]:
    status, said = ask(up, "GET", f"{app}/api/devices", f"Bearer {token}")
    assert status == 200
    return [phone["player_id"] for phone in said["devices"]]
