"""API keys and apps in a browser: a key is shown once, works, is masked after, and stops when it is revoked."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from playwright.async_api import Browser, Page, expect

from latchkey.domain.team.account import Role
from latchkey.usecases.access import keys, projects
from tests.api.client import Client
from tests.api.management import get
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site, Visitor, serious_findings, visiting

HOSTILE = "<img src=x onerror=alert(1)> key \u202egnp.exe"


async def shown_key(page: Page, prefix: str) -> str:
    await expect(page.get_by_role("heading", name="Your new key")).to_be_visible()
    told = "You will not see it again" if prefix == "sk_" else "It is no secret"
    await expect(page.get_by_role("status").first).to_contain_text(told)
    plaintext = await page.locator(".snippet code").first.inner_text()
    assert re.fullmatch(prefix + "[A-Za-z0-9]{32}", plaintext)
    return plaintext


async def revoke(page: Page, hint: str) -> None:
    row = page.get_by_role("row").filter(has_text=hint)
    await row.get_by_text("Revoke…").click()
    await row.get_by_label("I mean it").check()
    await row.get_by_role("button", name="Revoke").click()
    await expect(page.get_by_role("row").filter(has_text=hint).get_by_text("revoked")).to_be_visible()


async def test_a_secret_key_is_shown_once_works_is_masked_and_stops_when_revoked(site: Site, owner: Visitor) -> None:
    await owner.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = await owner.open("/keys/new")
    assert await serious_findings(page) == []
    await page.get_by_label("Name").fill(HOSTILE)
    await page.get_by_label("write").uncheck()
    await page.get_by_label("Requests a minute").fill("77")
    await page.get_by_role("button", name="Make it").click()
    plaintext = await shown_key(page, "sk_")
    assert await serious_findings(page) == []
    await page.locator(".snippet").first.get_by_role("button", name="Copy").click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == plaintext

    path = f"/v2/projects/{site.project_id}/products"
    client = Client(site.client.app, plaintext)
    reply = await client.get(path)
    assert (reply.status, (await client.post(path, {})).status) == (200, 403)
    await page.get_by_role("link", name="I have it").click()
    hint = f"sk_…{plaintext[-4:]}"
    row = page.get_by_role("row").filter(has_text=hint)
    await expect(row).to_contain_text(HOSTILE)
    assert [await row.locator("td").nth(one).inner_text() for one in (2, 3)] == ["read", "77"]
    assert plaintext not in await page.content()
    assert await serious_findings(page) == []
    await page.goto(site.path("/audit"))
    assert plaintext not in await page.content()

    await page.goto(site.path("/keys"))
    await revoke(page, hint)
    assert (await client.get(path)).status == 401


async def test_a_key_with_rules_is_made_changed_and_replaced(site: Site, owner: Visitor) -> None:
    page = await owner.open("/keys/new")
    await page.get_by_label("Name").fill("bound")
    await page.get_by_label("V2 replies").select_option("vendor")
    await page.get_by_label("Works only from these addresses").fill("203.0.113.7, nowhere")
    await page.get_by_role("button", name="Make it").click()
    await expect(page.get_by_role("alert")).to_contain_text("'nowhere' is not an address or a network")
    owner.complaints.clear()
    tomorrow = datetime.fromtimestamp(site.clock.now / 1000 + 86_400, UTC).date().isoformat()
    await page.get_by_label("Works until the end of").fill(tomorrow)
    await page.get_by_label("Works only from these addresses").fill("203.0.113.7\n2001:db8::/32")
    await page.get_by_role("button", name="Make it").click()
    old = await shown_key(page, "sk_")
    await expect(page.get_by_text("It works only from 203.0.113.7/32, 2001:db8::/32.")).to_be_visible()
    path = f"/v2/projects/{site.project_id}/products"
    inside, outside = (Client(site.client.app, old, address=one) for one in ("203.0.113.7", "127.0.0.1"))
    assert [(await client.get(path)).status for client in (inside, outside)] == [200, 403]
    assert b"project_id" not in (await inside.get(path)).body

    await page.get_by_role("link", name="I have it").click()
    row = page.get_by_role("row").filter(has_text=f"sk_…{old[-4:]}")
    await expect(row).to_contain_text("expires soon")
    await expect(row).to_contain_text("only from 203.0.113.7/32")
    await expect(row).to_contain_text("replies as")
    assert await serious_findings(page) == []
    await row.get_by_role("link", name="Change or replace").click()
    assert await serious_findings(page) == []
    await expect(page.get_by_label("Works until the end of")).to_have_value(tomorrow)
    await page.get_by_label("Works only from these addresses").fill("127.0.0.0/8")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status").first).to_contain_text("is changed, from the next request on")
    assert [(await client.get(path)).status for client in (inside, outside)] == [403, 200]

    await row.get_by_role("link", name="Change or replace").click()
    await page.get_by_text("Replace…").click()
    await page.get_by_label("Days that the old key still works").fill("0")
    await page.get_by_label("I mean it").check()
    await page.get_by_role("button", name="Make the new key").click()
    new = await shown_key(page, "sk_")
    assert await serious_findings(page) == []
    await expect(page.get_by_text("no longer works.")).to_be_visible()
    assert [(await Client(site.client.app, key).get(path)).status for key in (old, new)] == [401, 200]
    await page.goto(site.path("/keys"))
    await expect(row).to_contain_text("expired")
    await page.goto(site.path("/audit"))
    for action in ("Key created", "Key changed", "Key rotated"):
        await expect(page.get_by_role("table")).to_contain_text(action)
    assert new not in await page.content()


async def test_a_key_that_may_nothing_is_refused_and_the_form_stays_filled(site: Site, developer: Visitor) -> None:
    page = await developer.open("/keys/new")
    await page.get_by_label("Name").fill("mine")
    for scope in ("read", "write"):
        await page.get_by_label(scope).uncheck()
    await page.get_by_role("button", name="Make it").click()
    await expect(page.get_by_role("alert")).to_contain_text("Scopes are some of read, write")
    await expect(page.get_by_label("Name")).to_have_value("mine")
    developer.complaints.clear()


async def test_a_viewer_sees_masked_keys_and_apps_and_no_button(browser: Browser, site: Site, viewer: Visitor) -> None:
    issued = await keys.create_secret_key(site.database, site.project_id, "for a viewer", site.clock.now)
    for path in ("/keys", "/apps", "/apps/app_demo"):
        page = await viewer.open(path)
        await expect(page.get_by_role("table")).to_be_visible()
        assert await page.locator("main form, main .tools a").count() == 0
        assert issued.plaintext not in await page.content()
    phone = {"width": 390, "height": 800}
    async with visiting(browser, site, Role.OWNER, color_scheme="dark", viewport=phone) as visitor:
        for path in ("/keys", "/keys/new", f"/keys/{issued.key.id}", "/apps", "/apps/new", "/apps/app_demo"):
            page = await visitor.open(path)
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            assert await serious_findings(page) == []


async def test_an_app_is_made_with_its_key_gets_another_loses_one_and_goes(site: Site, developer: Visitor) -> None:
    page = await developer.open("/apps/new")
    await page.get_by_label("Name").fill(HOSTILE)
    await page.get_by_label("Store").select_option("play_store")
    await page.get_by_role("button", name="Make it").click()
    first = await shown_key(page, "goog_")
    await page.get_by_role("link", name="I have it").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    app_id = page.url.rpartition("/")[2]
    assert (await projects.load_app(site.database, site.project_id, app_id)).store == "play_store"

    await page.get_by_label("Name").fill("a second")
    await page.get_by_role("button", name="Make a key").click()
    second = await shown_key(page, "goog_")
    one, two = (Client(site.client.app, plaintext) for plaintext in (first, second))
    assert [(await client.get("/v1/subscribers/ina")).status in {200, 201} for client in (one, two)] == [True, True]
    await page.get_by_role("link", name="I have it").click()
    assert await serious_findings(page) == []
    assert first not in await page.content()
    await revoke(page, f"goog_…{first[-4:]}")
    assert (await one.get("/v1/subscribers/ina")).status == 401

    await page.get_by_text("Delete this app").click()
    await page.get_by_label("I mean it").last.check()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("status").first).to_contain_text("The app and its keys are gone")
    assert (await two.get("/v1/subscribers/ina")).status == 401
    assert (await get(site, f"apps/{app_id}")).status == 404


async def test_a_key_of_another_kind_or_app_is_not_revoked_from_the_wrong_page(site: Site) -> None:
    app = await projects.create_app(site.database, site.project_id, "Other", "test_store", site.clock.now)
    public = await keys.create_public_key(site.database, site.project_id, app.id, "Other", site.clock.now)
    secret = await keys.create_secret_key(site.database, site.project_id, "Server", site.clock.now)
    me = await somebody(site, Role.OWNER)
    for path in (
        f"keys/{public.key.id}/revoke",
        f"apps/app_demo/keys/{public.key.id}/revoke",
        f"apps/app_demo/keys/{secret.key.id}/revoke",
    ):
        reply = await me.post(f"/dashboard/projects/{site.project_id}/{path}", {"confirm": "yes"})
        assert reply.status == 404
    for issued in (public, secret):
        assert await keys.find_key(site.database, issued.plaintext) is not None
