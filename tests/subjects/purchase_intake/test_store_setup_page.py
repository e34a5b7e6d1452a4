"""An app's connection to its store in a browser: set-up, credentials, the notification URL, the light, warnings."""

from typing import Any

import pytest
from playwright.async_api import FilePayload, Page, expect

from latchkey.dashboard.store_form import label
from latchkey.engine.storage import store_handles as handles
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.purchase_intake.usecases.store_connections import STRIPE_EVENTS
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site, Visitor
from tests.dashboard.tab import tab
from tests.http.apple import AppStore, connected_app, new_app, put
from tests.http.management import get

PHONE = {"width": 390, "height": 800}


async def fill(page: Page, credentials: dict[str, Any], **other: str) -> None:
    for name, value in (
        {"api_base_url": "", **credentials, "root_certificates": credentials["root_certificates"][0], **other}
    ).items():
        if name == "api_base_url":
            await page.get_by_text("For a store emulator").click()
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


@pytest.mark.parametrize(
    ("host", "reachable"),
    [("billing.example.com", True), ("Billing.Example.com:8443", True), ("localhost:8443", False)]
    + [(host, False) for host in ("127.0.0.1:8443", "[::1]:8443", "intranet", "[", "")],
)
async def test_the_page_says_whether_a_store_can_reach_its_address(site: Site, host: str, reachable: bool) -> None:
    developer, app = await somebody(site, Role.DEVELOPER), await new_app(site)
    reply = await developer.get(f"/dashboard/projects/{site.project_id}/apps/{app['id']}", host=host)
    assert (reply.status, b"No store can reach this address" in reply.body) == (200, not reachable)


async def test_an_app_is_connected_step_by_step_and_the_light_turns_on_by_itself(
    site: Site, developer: Visitor, store: AppStore
) -> None:
    app = await new_app(site)
    page = await developer.open(f"/apps/{app['id']}")
    await expect(page.locator("#connection")).to_contain_text("This app is not connected")
    path = app["notification_url"].removeprefix("https://localhost")
    await expect(page.locator("#connection .snippet code")).to_have_text(site.url + path)
    await page.get_by_role("link", name="Set up, step by step").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Connect Notes to the App Store")
    await fill(page, store.credentials)
    await page.get_by_role("button", name="Save and check").click()
    await expect(page.get_by_role("status").first).to_contain_text("saved, and the store accepts them")
    panel = page.locator("#connection")
    await expect(panel).to_contain_text("accepted")
    await expect(panel).to_contain_text("com.example.notes")
    await page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    assert min(await panel.locator("dd").evaluate_all("all => all.map(one => one.clientWidth)")) > PHONE["width"] / 3
    await expect(page.locator("#light")).to_contain_text("No notification received yet")
    assert store.emulator.keys.private_key.splitlines()[1] not in await page.content()

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


async def test_the_light_and_the_url_are_text_without_scripts(site: Site, store: AppStore) -> None:
    app = await connected_app(site, store)
    page = await tab(site, Role.VIEWER, f"/apps/{app['id']}/setup")
    assert "No notification received yet" in page.text("#light")
    store.emulator.send_test()
    await store.send(site, app["notification_url"])
    await page.open(f"/apps/{app['id']}/setup")
    assert "First notification received" in page.text("#light")
    assert page.is_only_read


async def test_refused_and_missing_credentials_are_loud_on_the_overview_and_the_list_of_apps(
    site: Site, store: AppStore
) -> None:
    refused, missing = await new_app(site), await new_app(site)
    await put(site, refused["id"], {**store.credentials, "key_id": "NOTTHISONE"})
    page = await tab(site, Role.DEVELOPER)

    def loud(app: dict[str, Any]) -> str:
        setup = f'a[href$="/apps/{app["id"]}/setup"]'
        return page.text(f"[role=alert]:has({setup})")

    for path in ("", "/journal", "/apps"):
        await page.open(path)
        assert "The App Store refuses the credentials" in loud(refused)
        assert "has no App Store credentials" in loud(missing)
    for app in (refused, missing):
        await projects.delete_app(site.database, site.project_id, app["id"])
    await page.open("/apps")
    assert loud(missing) == ""


async def test_a_new_url_and_no_credentials_with_a_box_to_tick(site: Site, store: AppStore) -> None:
    app = await connected_app(site, store)
    page = await tab(site, Role.DEVELOPER, f"/apps/{app['id']}")
    await page.press(page.text("details:-soup-contains('New notification URL…') button"), sure=True)
    assert "There is a new notification URL" in page.notice
    shown = (await get(site, f"apps/{app['id']}")).json()["notification_url"]
    assert shown != app["notification_url"]
    assert page.text("#connection .snippet code").endswith(shown.removeprefix("https://localhost"))
    await page.press(page.text("details:-soup-contains('Delete the credentials…') button"), sure=True)
    assert "This app is not connected" in page.text("#connection")


WRONG: dict[str, tuple[str, dict[str, str], str]] = {
    "app_store": ("the App Store", {"private_key": "very s3cret", "bundle_id": "com.example.notes",
        "issuer_id": "x", "key_id": "x", "app_apple_id": "1"}, "private_key must be the content of the .p8 file"),
    "play_store": ("the Play Store", {"package_name": "com.example.notes",
        "service_account": '{"type": "authorized_user", "private_key": "very s3cret"}',
        "push_audience": "https://x.example", "push_service_account": "push@example.iam.gserviceaccount.com"},
        "service_account must be the JSON"),
    **dict.fromkeys(("stripe", "rc_billing"), ("Stripe", {"user_id_metadata_key": "com.example.notes",
        "api_key": "sk_test_verys3cretkey", "webhook_secret": "sk_test_verys3cretkey"},
        "webhook_secret must be the signing secret")),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
async def test_wrong_credentials_come_back_filled_in_but_for_the_secret(site: Site, name: str) -> None:
    title, given, problem = WRONG[name]
    app = await new_app(site, name)
    page = await tab(site, Role.DEVELOPER, f"/apps/{app['id']}/setup")
    assert f"to {title}" in page.heading
    told = {
        "play_store": ("google-play-developer-notifications@system.gserviceaccount.com",),
        "app_store": (),
    }.get(name, (*STRIPE_EVENTS, "subscription_data[metadata][app_user_id]", "prod_…:price_…"))
    for words in (*told, app["notification_url"].removeprefix("https://localhost")):
        assert words in page.text(".steps")
    reply = await page.person.post(f"{page.path.removesuffix('/setup')}/credentials", given)
    assert reply.status == 400
    assert problem.encode() in reply.body
    assert b'value="com.example.notes"' in reply.body
    assert b"s3cret" not in reply.body
    entry = (await audit.entries(site.database, site.project_id, limit=1))[0]
    assert (entry.action, entry.outcome) == ("app.credentials_saved", "refused")
    assert "s3cret" not in str(entry.detail)


async def test_pages_for_an_app_of_the_test_store_or_of_nobody_are_404(site: Site) -> None:
    me = await somebody(site, Role.OWNER)
    start = f"/dashboard/projects/{site.project_id}/apps"
    for app in ("app_demo", "app_none"):
        assert (await me.get(f"{start}/{app}/setup")).status == 404
        assert (await me.post(f"{start}/{app}/credentials", {"bundle_id": "x"})).status == 404
    for path in ("credentials/delete", "notification-url/rotate"):
        assert (await me.post(f"{start}/app_demo/{path}", {"confirm": "yes"})).status == 422
        assert (await me.post(f"{start}/app_none/{path}", {"confirm": "yes"})).status == 404


async def test_the_overview_says_how_often_the_safety_net_healed_something(site: Site, store: AppStore) -> None:
    app = await connected_app(site, store)
    async with site.database.acquire() as connection:
        await handles.note_healing(connection, site.project_id, app["id"], site.clock.now, healed=True)
        await handles.note_healing(connection, site.project_id, app["id"], site.clock.now, healed=False)
    page = await tab(site, Role.VIEWER)
    assert "asked the stores 2 times" in page.text()
    await page.open(f"/apps/{app['id']}")
    healed = "asked the store 2 times by itself, and found 1 change that no notification had reported"
    assert healed in page.text("#connection")
