"""An app's connection to its store in a browser: set-up, credentials, the notification URL, the light, warnings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, FilePayload, Page, expect

from latchkey.dashboard.store_form import label
from latchkey.domain.team.account import Role
from latchkey.storage.stores import handles
from latchkey.usecases.access import audit, projects
from latchkey.usecases.stores.credentials import STRIPE_EVENTS
from tests.api.apple import AppStore, app_store, connected_app, new_app, process
from tests.api.management import get
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site, Visitor, serious_findings, visiting

PHONE = {"width": 390, "height": 800}


@pytest.fixture
async def store() -> AsyncIterator[AppStore]:
    async with app_store() as store:
        yield store


async def fill(page: Page, credentials: dict[str, Any], **other: str) -> None:
    for name, value in (
        {"api_base_url": "", **credentials, "root_certificates": credentials["root_certificates"][0], **other}
    ).items():
        if name == "api_base_url":
            await page.get_by_text("For a pretend store").click()
        if name == "private_key":
            file = FilePayload(name="SubscriptionKey_2X9R4HXF34.p8", mimeType="text/plain", buffer=str(value).encode())
            await page.get_by_label("Private key, from a file").set_input_files(file)
            await expect(page.get_by_label("Private key", exact=True)).to_have_value(str(value))
            continue
        await page.locator(f"[name={name}]").fill(str(value))


@pytest.mark.parametrize(
    ("store", "name", "words"),
    [
        ("app_store", "app_apple_id", "Apple ID of the app"),
        ("app_store", "api_base_url", "Address of the App Store Server API"),
        # Their key was given as a file: what is shown is the account that it belongs to.
        ("play_store", "service_account", "Service account"),
        ("play_store", "private_key_id", "Private key ID"),
        ("stripe", "api_key", "API key"),
        ("stripe", "mode", "Mode"),
    ],
)
def test_saved_credentials_have_the_names_of_the_form(store: str, name: str, words: str) -> None:
    assert label(name, store) == words


async def test_an_app_is_connected_step_by_step_and_the_light_turns_on_by_itself(
    site: Site, developer: Visitor, store: AppStore
) -> None:
    app = await new_app(site)
    page = await developer.open(f"/apps/{app['id']}")
    await expect(page.locator("#connection")).to_contain_text("This app is not connected")
    path = app["notification_url"].removeprefix("https://localhost")
    await expect(page.locator("#connection .snippet code")).to_have_text(site.url + path)
    assert await serious_findings(page) == []
    await page.get_by_role("link", name="Set up, step by step").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Connect Notes to the App Store")
    assert await serious_findings(page) == []
    await fill(page, store.credentials)
    await page.get_by_role("button", name="Save and check").click()
    await expect(page.get_by_role("status").first).to_contain_text("saved, and the App Store accepts them")
    panel = page.locator("#connection")
    await expect(panel).to_contain_text("accepted")
    await expect(panel).to_contain_text("com.example.notes")
    await page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    assert min(await panel.locator("dd").evaluate_all("all => all.map(one => one.clientWidth)")) > PHONE["width"] / 3
    await expect(page.locator("#light")).to_contain_text("No notification received yet")
    assert store.emulator.keys.private_key.splitlines()[1] not in await page.content()
    assert await serious_findings(page) == []

    await page.get_by_role("link", name="Set-up and new credentials").click()
    await page.get_by_role("button", name="Ask Apple for a test notification").click()
    await expect(page.get_by_role("status").first).to_contain_text("The App Store accepts the credentials.")
    await page.get_by_role("button", name="Check the credentials again").click()
    await expect(page.get_by_role("status").first).to_contain_text("it sends a test notification now")

    store.emulator.send_test()
    assert {reply.status for reply in await store.send(site, app["notification_url"])} == {200}
    await expect(page.locator("#light")).to_contain_text("First notification received")
    done = await audit.entries(site.database, site.project_id, limit=3)
    assert [entry.action for entry in reversed(done)] == ["app.credentials_saved", *["app.credentials_checked"] * 2]
    for entry in done:
        assert (entry.subject, entry.outcome, entry.detail) == (app["id"], "done", {"check": "ok"})


async def test_the_light_and_the_url_are_text_without_scripts(browser: Browser, site: Site, store: AppStore) -> None:
    app = await connected_app(site, store)
    async with visiting(browser, site, Role.VIEWER, java_script_enabled=False) as visitor:
        page = await visitor.open(f"/apps/{app['id']}/setup")
        await expect(page.locator("#light")).to_contain_text("No notification received yet")
        store.emulator.send_test()
        await store.send(site, app["notification_url"])
        await page.reload()
        await expect(page.locator("#light")).to_contain_text("First notification received")
        assert await page.locator("main form").count() == 0


async def test_wrong_credentials_come_back_filled_in_but_for_the_secret(
    site: Site, developer: Visitor, store: AppStore
) -> None:
    app = await new_app(site)
    page = await developer.open(f"/apps/{app['id']}/setup")
    await fill(page, store.credentials, private_key="very s3cret", bundle_id="com.example.mine")
    await page.get_by_role("button", name="Save and check").click()
    await expect(page.get_by_role("alert").first).to_contain_text("private_key must be the content of the .p8 file")
    await expect(page.get_by_label("Bundle ID")).to_have_value("com.example.mine")
    await expect(page.get_by_label("Private key", exact=True)).to_have_value("")
    assert "s3cret" not in await page.content()
    entry = (await audit.entries(site.database, site.project_id, limit=1))[0]
    assert (entry.action, entry.outcome) == ("app.credentials_saved", "refused")
    assert "s3cret" not in str(entry.detail)
    developer.complaints.clear()


async def test_refused_and_missing_credentials_are_loud_on_the_overview_and_the_list_of_apps(
    site: Site, developer: Visitor, store: AppStore
) -> None:
    refused, missing = await new_app(site), await new_app(site)
    page = await developer.open(f"/apps/{refused['id']}/setup")
    await fill(page, store.credentials, key_id="NOTTHISONE")
    await page.get_by_role("button", name="Save and check").click()
    await expect(page.locator(".notice").first).to_contain_text("but the App Store refuses them")
    for path in ("", "/apps", "/journal"):
        await page.goto(site.path(path))
        for app, words in (
            (refused, "The App Store refuses the credentials"),
            (missing, "has no App Store credentials"),
        ):
            loud = page.get_by_role("alert").filter(has=page.locator(f"a[href$='/apps/{app['id']}/setup']"))
            await expect(loud).to_contain_text(words)
        assert await serious_findings(page) == []
    for app in (refused, missing):
        await projects.delete_app(site.database, site.project_id, app["id"])
    await page.goto(site.path("/apps"))
    await expect(
        page.get_by_role("alert").filter(has=page.locator(f"a[href$='/apps/{missing['id']}/setup']"))
    ).to_have_count(0)


async def test_a_new_url_and_no_credentials_with_a_box_to_tick(site: Site, developer: Visitor, store: AppStore) -> None:
    app = await connected_app(site, store)
    page = await developer.open(f"/apps/{app['id']}")
    await page.get_by_text("New notification URL…").click()
    action = page.locator("details", has_text="New notification URL…")
    await action.get_by_label("I mean it").check()
    await action.get_by_role("button").click()
    await expect(page.get_by_role("status").first).to_contain_text("There is a new notification URL")
    shown = (await get(site, f"apps/{app['id']}")).json()["notification_url"]
    assert shown != app["notification_url"]
    path = shown.removeprefix("https://localhost")
    await expect(page.locator("#connection .snippet code")).to_have_text(site.url + path)
    await page.get_by_text("Delete the credentials…").click()
    action = page.locator("details", has_text="Delete the credentials…")
    await action.get_by_label("I mean it").check()
    await action.get_by_role("button").click()
    await expect(page.locator("#connection")).to_contain_text("This app is not connected")


async def test_google_play_has_a_set_up_of_its_own_and_takes_no_nonsense(site: Site, developer: Visitor) -> None:
    app = await new_app(site, "play_store")
    page = await developer.open(f"/apps/{app['id']}/setup")
    await expect(page.locator(".steps")).to_contain_text(
        "google-play-developer-notifications@system.gserviceaccount.com"
    )
    assert await serious_findings(page) == []
    given = {
        "package_name": "com.example.notes",
        "service_account": '{"type": "authorized_user", "private_key": "very s3cret"}',
        "push_audience": f"{site.url}/{app['id']}",
        "push_service_account": "push@example.iam.gserviceaccount.com",
    }
    for name, value in given.items():
        await page.locator(f"[name={name}]").fill(value)
    await page.get_by_role("button", name="Save and check").click()
    await expect(page.get_by_role("alert").first).to_contain_text("service_account must be the JSON")
    await expect(page.get_by_label("Package name")).to_have_value("com.example.notes")
    assert "s3cret" not in await page.content()
    developer.complaints.clear()


@pytest.mark.parametrize("store", ["stripe", "rc_billing"])
async def test_stripe_has_a_set_up_of_its_own_and_repeats_no_secret(site: Site, developer: Visitor, store: str) -> None:
    app = await new_app(site, store)
    page = await developer.open(f"/apps/{app['id']}/setup")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("to Stripe")
    steps = page.locator(".steps")
    for told in (*STRIPE_EVENTS, "subscription_data[metadata][app_user_id]", "prod_…:price_…"):
        await expect(steps).to_contain_text(told)
    path = app["notification_url"].removeprefix("https://localhost")
    await expect(steps.locator(".snippet code").first).to_have_text(site.url + path)
    assert await serious_findings(page) == []
    await page.locator("[name=api_key]").fill("sk_test_verys3cretkey")
    await page.locator("[name=webhook_secret]").fill("sk_test_verys3cretkey")
    await page.locator("[name=user_id_metadata_key]").fill("uid")
    await page.get_by_role("button", name="Save and check").click()
    await expect(page.get_by_role("alert").first).to_contain_text("webhook_secret must be the signing secret")
    await expect(page.locator("[name=user_id_metadata_key]")).to_have_value("uid")
    assert "s3cret" not in await page.content()
    developer.complaints.clear()


async def test_pages_for_an_app_of_the_test_store_or_of_nobody_are_404(site: Site) -> None:
    me = await somebody(site, Role.OWNER)
    start = f"/dashboard/projects/{site.project_id}/apps"
    for app in ("app_demo", "app_none"):
        assert (await me.get(f"{start}/{app}/setup")).status == 404
        assert (await me.post(f"{start}/{app}/credentials", {"bundle_id": "x"})).status == 404
    for path in ("credentials/delete", "notification-url/rotate"):
        assert (await me.post(f"{start}/app_demo/{path}", {"confirm": "yes"})).status == 422
        assert (await me.post(f"{start}/app_none/{path}", {"confirm": "yes"})).status == 404


async def test_every_page_fits_a_phone_in_the_dark(browser: Browser, site: Site, store: AppStore) -> None:
    app, play = await connected_app(site, store), await new_app(site, "play_store")
    stripe = await new_app(site, "stripe")
    store.emulator.sell(product_id="pro_monthly", buyer="phoebe")
    await store.send(site, app["notification_url"])
    await process(site)
    [entry] = (await get(site, f"store_notifications?app_id={app['id']}&limit=1")).json()["items"]
    pages = (
        f"/apps/{app['id']}",
        f"/apps/{app['id']}/setup",
        f"/apps/{play['id']}/setup",
        f"/apps/{stripe['id']}/setup",
        "/journal",
        f"/journal/{entry['id']}",
    )
    async with visiting(browser, site, Role.OWNER, color_scheme="dark", viewport=PHONE) as visitor:
        for path in pages:
            page = await visitor.open(path)
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            assert await serious_findings(page) == [], path


async def test_the_overview_says_how_often_the_safety_net_healed_something(
    site: Site, viewer: Visitor, store: AppStore
) -> None:
    app = await connected_app(site, store)
    async with site.database.acquire() as connection:
        await handles.note_healing(connection, site.project_id, app["id"], site.clock.now, healed=True)
        await handles.note_healing(connection, site.project_id, app["id"], site.clock.now, healed=False)
    page = await viewer.open()
    await expect(page.locator("main")).to_contain_text("asked the stores 2 times")
    await page.goto(site.path(f"/apps/{app['id']}"))
    await expect(page.locator("#connection")).to_contain_text(
        "asked the store 2 times by itself, and found 1 change that no notification had reported"
    )
